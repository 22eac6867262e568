package quantize

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"rankd/internal/dtype"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
	"rankd/model/reference"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// small is a DLRM with a small dense network, and golden requests.
func small(t *testing.T) *model.Bundle {
	t.Helper()
	b, err := demo.Create(context.Background(), demo.Options{Dir: filepath.Join(t.TempDir(), "demo"), Seed: 1, MaxVocab: 200, MaxBatch: 8, Golden: 24, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// network scores packed rows with a reference network, so that no device is needed.
func network(_ context.Context, b *model.Bundle, rows [][][]byte) ([][]float64, error) {
	forward, err := reference.OpenNetwork(b)
	if err != nil {
		return nil, err
	}
	var scores [][]float64
	for _, row := range rows {
		var pooled [][]float64
		for _, table := range b.Manifest.Tables {
			v := make([]float64, table.Dim)
			model.Row(v, dtype.Float32, row[table.Slot.Array][table.Slot.Offset:])
			pooled = append(pooled, v)
		}
		var dense [][]float32
		for _, d := range b.Manifest.Dense {
			wide, v := make([]float64, d.Width), make([]float32, d.Width)
			model.Row(wide, dtype.Float32, row[d.Slot.Array][d.Slot.Offset:])
			for k := range v {
				v[k] = float32(wide[k])
			}
			dense = append(dense, v)
		}
		scores = append(scores, forward(pooled, dense))
	}
	return scores, nil
}

// Ragged bags with weights go through the golden file and back.
func TestRaggedGoldenRequestsStayTheSame(t *testing.T) {
	b, err := demo.CreateTest(context.Background(), demo.TestOptions{
		Dir: filepath.Join(t.TempDir(), "test"), Weighted: true, PerTable: true, Seed: 3,
		Tables: []demo.TestTable{{Rows: 50}, {Rows: 60, Combiner: model.CombinerMean}, {Rows: 70, Hotness: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, r, err := Run(context.Background(), b, Options{Dir: filepath.Join(t.TempDir(), "new"), To: dtype.BFloat16, Score: network})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Scores; s.Scores == 0 || s.Max > 0.01*max(-s.LowestScore, s.HighScore) {
		t.Errorf("got scores that differ by %g, want at most a hundredth of %g", s.Max, s.HighScore)
	}
	before, _, err1 := reference.ReadGolden(b)
	after, _, err2 := reference.ReadGolden(made)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("got other golden requests (%v, %v)", err1, err2)
	}
	if len(before) == 0 || before[0].Bags[0].Weights == nil {
		t.Error("the golden requests have no weights")
	}
}

func TestI4GoldenScoresAreThoseOfTheNewTables(t *testing.T) {
	b := small(t)
	_, was, err := reference.ReadGolden(b)
	if err != nil {
		t.Fatal(err)
	}
	for to, most := range map[dtype.DType]float64{dtype.Float16: 2e-3, dtype.BFloat16: 2e-2, dtype.Int8: 3e-2} {
		t.Run(to.String(), func(t *testing.T) {
			made, r, err := Run(context.Background(), b, Options{Dir: filepath.Join(t.TempDir(), "new"), To: to, Score: network})
			if err != nil {
				t.Fatal(err)
			}
			if err := made.VerifyDigests(context.Background(), nil); err != nil {
				t.Error(err)
			}
			examples, is, err := reference.ReadGolden(made)
			if err != nil {
				t.Fatal(err)
			}
			if len(examples) != len(was) {
				t.Fatalf("got %d golden requests, want %d", len(examples), len(was))
			}
			largest := 0.0
			for i := range was {
				largest = max(largest, math.Abs(is[i][0]-was[i][0]))
			}
			if largest > most || largest == 0 || math.Abs(largest-r.Scores.Max) > 1e-6 {
				t.Errorf("got scores that differ by %g, reported as %g, want above 0 and at most %g", largest, r.Scores.Max, most)
			}
			var text bytes.Buffer
			if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "cat_25") || !strings.Contains(text.String(), "24 of golden requests") {
				t.Errorf("got %v and the report\n%s", err, &text)
			}
			for i, table := range r.Tables {
				if want := made.Manifest.Tables[i].Rows * int64(model.RowBytes(to, 128)); table.BytesAfter != want {
					t.Errorf("table %s: got %d bytes, want %d", table.Name, table.BytesAfter, want)
				}
			}
		})
	}
}

func TestOnlyNamedTablesChange(t *testing.T) {
	b := small(t)
	made, r, err := Run(context.Background(), b, Options{Dir: filepath.Join(t.TempDir(), "new"), To: dtype.Int8, Tables: []string{"cat_3"}, Score: network})
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range made.Manifest.Tables {
		want, same := dtype.Float32, true
		if table.Name == "cat_3" {
			want, same = dtype.Int8, false
		}
		if table.RowDType != want || (r.Tables[i].Max == 0) != same || (made.Manifest.Digests[table.File] == b.Manifest.Digests[table.File]) != same {
			t.Errorf("table %s: got %v, largest error %g", table.Name, table.RowDType, r.Tables[i].Max)
		}
	}
}

// I2 and I3: no other value of the row type is nearer to an element.
func TestI2I3ElementsBecomeTheNearestValue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		x := make([]float64, 1+rng.IntN(40))
		size := math.Exp(rng.NormFloat64() * 4)
		for k := range x {
			x[k] = float64(float32(rng.NormFloat64() * size))
		}
		for _, to := range model.RowDTypes() {
			row, got := make([]byte, model.RowBytes(to, len(x))), make([]float64, len(x))
			if err := encode(row, to, x); err != nil {
				if to == dtype.Float16 && size > 1000 {
					continue
				}
				t.Fatal(err)
			}
			model.Row(got, to, row)
			low, high := math.Inf(1), math.Inf(-1)
			for _, v := range x {
				low, high = min(low, v), max(high, v)
			}
			for k, v := range x {
				most := map[dtype.DType]float64{
					dtype.Float16: max(math.Abs(v)/(1<<11), 1.0/(1<<25)), dtype.BFloat16: math.Abs(v) / (1 << 8), dtype.Int8: (high - low) / 255 / 2 * 1.001,
				}[to]
				if d := math.Abs(got[k] - v); d > most*1.0001 {
					t.Fatalf("%v: %g became %g, which is %g away, want at most %g", to, v, got[k], d, most)
				}
			}
		}
	}
}

func TestWhatATypeCannotHoldIsRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		to   dtype.DType
		x    []float64
		want string
	}{
		{dtype.Float16, []float64{1, 70000}, "element 1: got 70000, float16 holds at most 65504"},
		{dtype.BFloat16, []float64{1, -3.4e38}, "element 1: got -3.4e+38, bfloat16 holds at most 3.3895e38"},
		{dtype.Int8, []float64{1, 2, nan}, "element 2: got NaN"},
		{dtype.Int8, []float64{inf}, "element 0: got +Inf"},
		{dtype.Int64, []float64{1}, "row type: got int64"},
	} {
		err := encode(make([]byte, 64), c.to, c.x)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: got %v, want %q", c.to, c.x, err, c.want)
		}
	}
	for _, x := range [][]float64{{inf, nan}, {0}} { // these have a place in floats
		for _, to := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			if err := encode(make([]byte, 64), to, x); err != nil {
				t.Errorf("%v %v: %v", to, x, err)
			}
		}
	}
	flat := make([]byte, 64) // all elements alike: a scale of zero
	if err := encode(flat, dtype.Int8, []float64{3, 3}); err != nil {
		t.Error(err)
	}
	got := make([]float64, 2)
	model.Row(got, dtype.Int8, flat)
	if got[0] != 3 || got[1] != 3 {
		t.Errorf("a row of threes: got %v", got)
	}
}

// Rows of dim 2 have 8 bytes as float32 and 10 as int8.
func TestTablesThatWouldNotGetSmallerStayOrAreRefused(t *testing.T) {
	create := func(dims ...int) *model.Bundle {
		o := demo.TestOptions{Dir: filepath.Join(t.TempDir(), "test"), PerTable: true, Seed: 3}
		for _, dim := range dims {
			o.Tables = append(o.Tables, demo.TestTable{Rows: 50, Dim: dim})
		}
		b, err := demo.CreateTest(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	mixed := create(2, 16)
	names := []string{mixed.Manifest.Tables[0].Name, mixed.Manifest.Tables[1].Name}
	made, r, err := Run(context.Background(), mixed, Options{Dir: filepath.Join(t.TempDir(), "new"), To: dtype.Int8, Score: network})
	if err != nil {
		t.Fatal(err)
	}
	if got := []dtype.DType{made.Manifest.Tables[0].RowDType, made.Manifest.Tables[1].RowDType}; got[0] != dtype.Float32 || got[1] != dtype.Int8 {
		t.Errorf("got row types %v, want float32 and int8", got)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "float32, as before") {
		t.Errorf("got %v and the report\n%s", err, &text)
	}
	for name, c := range map[string]struct {
		b      *model.Bundle
		tables []string
		to     dtype.DType
		want   string
	}{
		"named":      {mixed, names[:1], dtype.Int8, `table "` + names[0] + `": got rows of 10 bytes as int8 from 8 as float32`},
		"all":        {create(1, 2), nil, dtype.Int8, "no table gets fewer bytes a row as int8"},
		"once more":  {made, names[1:], dtype.Int8, "got rows of 24 bytes as int8 from 24 as int8"},
		"wider":      {made, names[1:], dtype.BFloat16, "got rows of 32 bytes as bfloat16 from 24 as int8"},
		"no new one": {made, nil, dtype.Float32, "no table gets fewer bytes"},
	} {
		_, _, err := Run(context.Background(), c.b, Options{Dir: filepath.Join(t.TempDir(), "new"), To: c.to, Tables: c.tables, Score: network})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestNewBundleInTheOldOneIsRefused(t *testing.T) {
	b := small(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(b.Dir, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{b.Dir, filepath.Join(b.Dir, "new"), filepath.Join(b.Dir, "tables", "x", "new"), filepath.Join(link, "new")} {
		_, _, err := Run(context.Background(), b, Options{Dir: dir, To: dtype.Int8, Score: network})
		if err == nil || !strings.Contains(err.Error(), "in the old one") {
			t.Errorf("%s: got %v, want a refusal", dir, err)
		}
	}
	if _, _, err := Run(context.Background(), b, Options{Dir: b.Dir + "-int8", To: dtype.Int8, Score: network}); err != nil {
		t.Errorf("beside it: %v", err)
	}
}

// A table may hold NaN where training went wrong: bfloat16 keeps it, and the report says so instead of giving NaN for all errors.
func TestElementsThatAreNotFiniteAreCounted(t *testing.T) {
	b := small(t)
	path := b.Path(b.Manifest.Tables[3].File)
	bad, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	le.PutUint32(bad[len(bad)-4:], math.Float32bits(float32(math.NaN())))
	le.PutUint32(bad[len(bad)-8:], math.Float32bits(float32(math.Inf(-1))))
	if err := os.WriteFile(path, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bad)
	b.Manifest.Digests[b.Manifest.Tables[3].File] = "sha256:" + hex.EncodeToString(sum[:])
	_, r, err := Run(context.Background(), b, Options{Dir: filepath.Join(t.TempDir(), "new"), To: dtype.BFloat16, Score: network})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range r.Tables {
		if want := map[bool]int64{true: 2}[i == 3]; e.NotFinite != want || math.IsNaN(e.RMS) || math.IsNaN(e.Max) || math.IsNaN(e.Scale) {
			t.Errorf("table %s: got %+v, want %d that are not finite", e.Name, e, want)
		}
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "table cat_3: 2 elements are NaN or infinite") {
		t.Errorf("got %v and the report\n%s", err, &text)
	}
}

func TestI1NothingIsLeftOfAFailure(t *testing.T) {
	b := small(t)
	dir := t.TempDir()
	broken := errors.New("no device")
	for name, o := range map[string]Options{
		"unknown table": {To: dtype.Int8, Tables: []string{"cat_99"}},
		"unknown type":  {To: dtype.Int32},
		"no scores":     {To: dtype.Int8, Score: func(context.Context, *model.Bundle, [][][]byte) ([][]float64, error) { return nil, broken }},
	} {
		o.Dir = filepath.Join(dir, "new")
		if _, _, err := Run(context.Background(), b, o); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: got %v left", name, left)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Run(ctx, b, Options{Dir: filepath.Join(dir, "new"), To: dtype.Int8, Score: network}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("cancelled: got %v left", left)
	}
}

// TestBrokenBundleIsNotMadeGood: the new bundle has digests of its own, so broken bytes would pass for good ones from then on.
func TestBrokenBundleIsNotMadeGood(t *testing.T) {
	b := small(t)
	for _, name := range []string{b.Manifest.Tables[7].File, "weights.safetensors"} {
		path := b.Path(name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[len(bad)-5] ^= 1
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if _, _, err := Run(context.Background(), b, Options{Dir: to, To: dtype.Int8, Score: network}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with a flipped bit: got %v, want an error that names it", name, err)
		}
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s with a flipped bit: got a bundle (%v), want none", name, err)
		}
		if err := os.WriteFile(path, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
