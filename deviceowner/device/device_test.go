package device_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/deviceowner/device"
	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/deviceowner/rowcheck"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/demo"
	"rankd/model/reference"
)

func smallDemo(t *testing.T) *model.Bundle {
	t.Helper()
	b, err := demo.Create(t.Context(), demo.Options{
		Dir: filepath.Join(t.TempDir(), "demo"), Seed: 7, MaxVocab: 50, Buckets: []int{1, 4, 32}, MaxBatch: 32, Golden: -1, Small: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, b *model.Bundle, o device.Options) executor.Executor {
	t.Helper()
	e, err := device.Open(b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestDemoTreatsRowsIndependently(t *testing.T) {
	b := smallDemo(t)
	for name, o := range map[string]device.Options{
		"sim":  {Kind: device.KindSim, SimFull: true},
		"pjrt": {Kind: device.KindPJRT, Platform: "cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			if o.Kind == device.KindPJRT {
				o.Plugin = pjrttest.CPU(t)
			}
			e := open(t, b, o)
			if want := name == "sim"; e.Simulated() != want || strings.Contains(e.Name(), "simulated") != want {
				t.Errorf("I1: got %q, simulated %v", e.Name(), e.Simulated())
			}
			report, err := rowcheck.Run(t.Context(), e, rowcheck.LayoutOf(b.Manifest), rowcheck.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", report)
			if total, late := e.(device.Counter).Compiles(); total != 3 || late != 0 {
				t.Errorf("compiles: got %d, %d late; want 3, 0", total, late)
			}
		})
	}
}

func TestDemoScoresEqualTheReference(t *testing.T) {
	b := smallDemo(t)
	e := open(t, b, device.Options{Kind: device.KindPJRT, Plugin: pjrttest.CPU(t), Platform: "cpu"})
	network, err := reference.OpenDCNv2(b)
	if err != nil {
		t.Fatal(err)
	}
	const bucket = 4
	if err := e.Compile(context.Background(), bucket); err != nil {
		t.Fatal(err)
	}
	m := b.Manifest
	stride := m.Packed[0].Stride
	batch := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*stride)}, Scores: make([]byte, bucket*m.ScoreBytes())}
	var want []float64
	for r := range bucket {
		var pooled [][]float64
		put := func(at int, v float32) {
			binary.LittleEndian.PutUint32(batch.Arrays[0][r*stride+at:], math.Float32bits(v))
		}
		for ti := range m.Tables {
			var vector []float64
			for i := range m.Tables[ti].Dim {
				v := float32(math.Sin(float64(r*7919+ti*131+i))) * 0.1
				vector = append(vector, float64(v))
				put(m.Tables[ti].Slot.Offset+4*i, v)
			}
			pooled = append(pooled, vector)
		}
		var dense []float32
		for i := range m.Dense[0].Width {
			v := float32(math.Cos(float64(r*31 + i)))
			dense = append(dense, v)
			put(m.Dense[0].Slot.Offset+4*i, v)
		}
		want = append(want, network.Forward(pooled, [][]float32{dense})...)
	}
	done := make(chan error, 1)
	if err := e.Launch(batch, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for r := range bucket {
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(batch.Scores[4*r:])))
		if math.Abs(got-want[r]) > 1e-5 { // float32 sums of a few hundred terms against float64
			t.Errorf("row %d: got %v, want %v", r, got, want[r])
		}
	}
}

// A device owner that starts again finds its programs, compiles nothing and scores the same.
func TestSecondStartLoadsWhatTheFirstCompiled(t *testing.T) {
	b := smallDemo(t)
	o := device.Options{
		Kind: device.KindPJRT, Plugin: pjrttest.CPU(t), Platform: "cpu", Buckets: b.Manifest.Buckets,
		Cache: filepath.Join(t.TempDir(), "cache"),
	}
	var scores [2][]byte
	for start := range scores {
		e := open(t, b, o)
		for _, bucket := range b.Manifest.Buckets {
			if err := e.Compile(t.Context(), bucket); err != nil {
				t.Fatal(err)
			}
			rows := make([]byte, bucket*b.Manifest.Packed[0].Stride)
			for i := 0; i+4 <= len(rows); i += 4 {
				binary.LittleEndian.PutUint32(rows[i:], math.Float32bits(float32(math.Sin(float64(i+bucket)))))
			}
			batch := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{rows}, Scores: make([]byte, bucket*b.Manifest.ScoreBytes())}
			done := make(chan error, 1)
			if err := e.Launch(batch, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			scores[start] = append(scores[start], batch.Scores...)
		}
		want := uint64(3)
		if start > 0 {
			want = 0
		}
		if total, _ := e.(device.Counter).Compiles(); total != want {
			t.Errorf("start %d: got %d compiles, want %d", start, total, want)
		}
	}
	if !bytes.Equal(scores[0], scores[1]) {
		t.Error("scores of the two starts differ")
	}
}

func TestUnknownKindIsRefused(t *testing.T) {
	if _, err := device.Open(&model.Bundle{Manifest: &model.Manifest{}}, device.Options{Kind: "gpu"}); !errors.Is(err, executor.ErrPermanent) {
		t.Errorf("got %v, want a permanent error", err)
	}
}

func TestBundlesThatDoNotFitAreErrors(t *testing.T) {
	b := smallDemo(t)
	b.Manifest.Program.Inputs[0].Weight = "nothing"
	if _, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: "cpu"}); !errors.Is(err, executor.ErrPermanent) || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("missing weight: got %v", err)
	}
	b.Manifest.Packed[0].DType = dtype.Int32
	if _, err := device.Open(b, device.Options{Kind: device.KindSim}); !errors.Is(err, executor.ErrPermanent) || !strings.Contains(err.Error(), "int32") {
		t.Errorf("packed integers: got %v", err)
	}
}

func TestSpoiltWeightsArePermanentErrors(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 1000) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"folder":  func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := smallDemo(t)
			path := b.Path(b.Manifest.Program.Weights)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			_, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: "cpu"})
			if !errors.Is(err, executor.ErrPermanent) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want a permanent error that names %s", err, path)
			}
		})
	}
}
