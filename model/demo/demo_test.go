package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
	"rankd/internal/testutil"
	"rankd/model"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// small makes a DLRM-DCNv2 with at most 50 rows a table, which takes milliseconds.
func small(t *testing.T, seed uint64) *model.Bundle {
	t.Helper()
	b, err := Create(context.Background(), Options{Dir: filepath.Join(t.TempDir(), "m"), Seed: seed, MaxVocab: 50, MaxBatch: 24, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, p))
		files[p] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tensor(t *testing.T, path, name string) (model.Tensor, []float32) {
	t.Helper()
	f, err := model.OpenTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("tensor %q: got %q", name, f.Names())
	}
	x.Data = bytes.Clone(x.Data)
	var values []float32
	if x.DType == dtype.Float32 {
		for at := 0; at < len(x.Data); at += 4 {
			values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(x.Data[at:])))
		}
	}
	return x, values
}

func TestEqualSeedsGiveEqualBytes(t *testing.T) {
	a := readAll(t, small(t, 7).Dir)
	previous := runtime.GOMAXPROCS(1)
	b := readAll(t, small(t, 7).Dir)
	runtime.GOMAXPROCS(previous)
	if !reflect.DeepEqual(a, b) {
		t.Error("I1: two runs with one seed differ")
	}
	c := readAll(t, small(t, 8).Dir)
	same := 0
	for p := range a {
		if a[p] == c[p] {
			same++
		}
	}
	if same != 1 || a[programFile] != c[programFile] {
		t.Errorf("I1: %d of %d files are the same with another seed, want the program alone", same, len(a))
	}
}

func TestTableSizesAreThoseOfTheModel(t *testing.T) {
	for _, c := range []struct{ maxVocab, rows int64 }{{0, 204184588}, {850000, 6216632}, {1000, 18369}} {
		o := Options{MaxVocab: c.maxVocab}
		o.setDefaults()
		rows, ids := int64(0), 0
		m := o.manifest(fullArchitecture())
		for _, table := range m.Tables {
			rows += table.Rows
			ids += table.Hotness
		}
		if rows != c.rows || ids != 214 || m.TableBytes() != 512*c.rows {
			t.Errorf("max vocab %d: got %d rows, %d ids, %d bytes, want %d, 214, %d", c.maxVocab, rows, ids, m.TableBytes(), c.rows, 512*c.rows)
		}
		if got, want := m.Buckets, []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}; !reflect.DeepEqual(got, want) {
			t.Errorf("buckets: got %v, want %v", got, want)
		}
	}
}

func TestPackedRowIsAsDocumented(t *testing.T) {
	m := small(t, 1).Manifest
	for i := range m.Tables {
		if want := (model.Slot{Array: 0, Offset: 512 * i}); m.Tables[i].Slot != want {
			t.Errorf("table %d: got slot %v, want %v", i, m.Tables[i].Slot, want)
		}
	}
	if m.Dense[0].Slot.Offset != 13312 || m.Packed[0].Stride != 13376 || len(m.Packed) != 1 {
		t.Errorf("got dense at %d, packed %v, want 13312, stride 13376", m.Dense[0].Slot.Offset, m.Packed)
	}
	if n, ok := m.IDColumns(); !ok || n != 214 {
		t.Errorf("packed ids: got %d, %v", n, ok)
	}
	if m.Buckets[len(m.Buckets)-1] != 24 || m.Buckets[len(m.Buckets)-2] != 16 {
		t.Errorf("buckets: got %v, want 1 to 16 and 24", m.Buckets)
	}
}

func TestBundlePassesItsOwnChecks(t *testing.T) {
	b, err := model.Open(small(t, 3).Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.CheckTensors(), b.VerifyDigests(context.Background(), nil)); err != nil {
		t.Error(err)
	}
	golden, err := b.OpenGolden()
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	for i := range b.Manifest.Tables {
		table := &b.Manifest.Tables[i]
		x, err := golden.Want(table.Name, dtype.Int64, 64, int64(table.Hotness))
		if err != nil {
			t.Fatal(err)
		}
		if first, last := binary.LittleEndian.Uint64(x.Data), binary.LittleEndian.Uint64(x.Data[8*table.Hotness:]); first != 0 || last != uint64(table.Rows-1) {
			t.Errorf("table %q: examples 0 and 1 read rows %d and %d, want the first and the last", table.Name, first, last)
		}
	}
	if _, err := golden.Want("dense", dtype.Float32, 64, 13); err != nil {
		t.Error(err)
	}
}

func TestScoresAreSpread(t *testing.T) {
	for seed := range uint64(3) {
		b := small(t, seed)
		_, scores := tensor(t, b.Path(model.GoldenFile), "expect.score")
		low, high, sum, squares := 1.0, 0.0, 0.0, 0.0
		for _, s := range scores {
			v := float64(s)
			low, high = min(low, v), max(high, v)
			sum += v
			squares += v * v
		}
		n := float64(len(scores))
		deviation := math.Sqrt(squares/n - sum/n*sum/n)
		if n != 64 || low < 1e-4 || high > 1-1e-4 || deviation < 0.05 {
			t.Errorf("I3: seed %d: %v scores from %v to %v with a deviation of %v", seed, n, low, high, deviation)
		}
	}
}

func TestStreamIsAddressedByPosition(t *testing.T) {
	s := newStream(1, "x")
	whole := make([]byte, 4*1000)
	s.fill(whole, 0, 0.5)
	for _, first := range []int{0, 2, 500, 998} {
		part := make([]byte, 8)
		s.fill(part, uint64(first), 0.5)
		if !bytes.Equal(part, whole[4*first:][:8]) {
			t.Errorf("numbers from %d on differ from those of the whole", first)
		}
	}
	sum := 0.0
	for at := 0; at < len(whole); at += 4 {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(whole[at:])))
		if v < -0.5 || v >= 0.5 {
			t.Fatalf("number %d: got %v, want [-0.5, 0.5)", at/4, v)
		}
		sum += v
	}
	// The mean of 1000 numbers, uniform with a deviation of 0.29, deviates by 0.009.
	if mean := sum / 1000; math.Abs(mean) > 0.045 {
		t.Errorf("mean: got %v, want about 0", mean)
	}
	if newStream(1, "x").word(0) == newStream(1, "y").word(0) || newStream(1, "x").word(0) == newStream(2, "x").word(0) {
		t.Error("streams of different labels or seeds begin alike")
	}
	// The bits are part of what a seed means: they must never change.
	if got := newStream(1, "x").word(0); got != 0x59a11d765241e6d1 {
		t.Errorf("word 0: got %#x", got)
	}
}

func TestCreateReportsProgressAndCancels(t *testing.T) {
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Create(ctx, Options{Dir: filepath.Join(parent, "m"), MaxVocab: 100000, Small: true, Progress: func(done, total int64) {
		if done > total || total < 100<<20 {
			t.Errorf("progress: got %d of %d", done, total)
		}
		cancel()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Dir: dir, MaxVocab: -1}, "create demo model: max vocab: got -1, want 0 (full scale) or more"},
		{Options{Dir: dir, MaxVocab: 1, Small: true, Buckets: []int{3}}, `buckets[0]: got 3, want max_batch (4096)`},
		{Options{Dir: dir, MaxVocab: 1, Small: true, MaxBatch: 1 << 20}, `max_batch: got 1048576, want 1 to 65536`},
	} {
		if _, err := Create(context.Background(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if err := checkSpace(filepath.Dir(dir), math.MaxInt64); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("space: got %v, want ENOSPC", err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}
