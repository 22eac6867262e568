package reference

import (
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/internal/dtype"
	"rankd/internal/testutil"
	"rankd/model"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func floats(vs ...float32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

type named map[string]struct {
	shape []int64
	data  []float32
}

// tinyBundle has two tables of dim 2, one dense feature and the given weights. Row r of table t is [10·t+r, -r].
func tinyBundle(t *testing.T, columns int, weights named) *model.Bundle {
	t.Helper()
	ctx := context.Background()
	packed := 0
	m := &model.Manifest{
		FormatVersion: model.FormatVersion, Name: "tiny", Version: "1",
		Dense:    []model.Dense{{Name: "dense", Width: 1, DType: dtype.Float32}},
		Outputs:  []model.Output{{Name: "score", Width: columns}},
		MaxBatch: 1, Buckets: []int{1},
		Program: model.Program{
			Weights: "weights.safetensors", Files: []model.ProgramFile{{Batch: 1, File: "program.mlir"}},
			Inputs: []model.ProgramInput{{Packed: &packed}},
		},
	}
	w, err := model.Create(filepath.Join(t.TempDir(), "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b"} {
		m.Tables = append(m.Tables, model.Table{
			Name: name, Rows: 4, Dim: 2, Combiner: model.CombinerSum, IDPolicy: model.PolicyReject,
			RowDType: dtype.Float32, File: name, Tensor: "rows",
		})
		var rows []float32
		for r := range 4 {
			rows = append(rows, float32(10*i+r), float32(-r))
		}
		if err := w.AddTensors(ctx, name, []model.NamedTensor{{Name: "rows", DType: dtype.Float32, Shape: []int64{4, 2}, Data: floats(rows...)}}); err != nil {
			t.Fatal(err)
		}
	}
	m.AssignSlots(dtype.Float32)
	var list []model.NamedTensor
	for name, x := range weights {
		list = append(list, model.NamedTensor{Name: name, DType: dtype.Float32, Shape: x.shape, Data: floats(x.data...)})
	}
	if err := w.AddTensors(ctx, "weights.safetensors", list); err != nil {
		t.Fatal(err)
	}
	if err := w.AddText(ctx, "program.mlir", "not needed here"); err != nil {
		t.Fatal(err)
	}
	b, err := w.Commit(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openLookup(t *testing.T, b *model.Bundle) *Lookup {
	t.Helper()
	l, err := OpenLookup(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestPoolFollowsCombinerPolicyAndWeights(t *testing.T) {
	b := tinyBundle(t, 0, nil)
	l := openLookup(t, b)
	for _, c := range []struct {
		name, combiner, policy string
		bag                    Bag
		want                   []float64
		err                    string
	}{
		{"sum", "sum", "reject", Bag{IDs: []int64{1, 3}}, []float64{11 + 13, -4}, ""},
		{"a row twice", "sum", "reject", Bag{IDs: []int64{2, 2}}, []float64{24, -4}, ""},
		{"mean", "mean", "reject", Bag{IDs: []int64{1, 3}}, []float64{12, -2}, ""},
		{"sqrtn", "sqrtn", "reject", Bag{IDs: []int64{0, 1, 2, 3}}, []float64{46.0 / 2, -6.0 / 2}, ""},
		{"weighted sum", "sum", "reject", Bag{IDs: []int64{1, 3}, Weights: []float32{2, 0.5}}, []float64{22 + 6.5, -3.5}, ""},
		{"weighted mean", "mean", "reject", Bag{IDs: []int64{1, 3}, Weights: []float32{3, 1}}, []float64{46.0 / 4, -6.0 / 4}, ""},
		{"weighted sqrtn", "sqrtn", "reject", Bag{IDs: []int64{1, 3}, Weights: []float32{3, 4}}, []float64{85.0 / 5, -15.0 / 5}, ""},
		{"weights that cancel", "mean", "reject", Bag{IDs: []int64{1, 3}, Weights: []float32{1, -1}}, []float64{0, 0}, ""},
		{"empty sum", "sum", "reject", Bag{}, []float64{0, 0}, ""},
		{"empty mean", "mean", "reject", Bag{}, []float64{0, 0}, ""},
		{"empty sqrtn", "sqrtn", "reject", Bag{}, []float64{0, 0}, ""},
		{"I3/beyond the end", "sum", "reject", Bag{IDs: []int64{0, 4}}, nil, `pool table "b": position 1: id: got 4, want 0 to 3`},
		{"I3/negative", "sum", "reject", Bag{IDs: []int64{-1}}, nil, `pool table "b": position 0: id: got -1, want 0 to 3`},
		{"clamp", "sum", "clamp", Bag{IDs: []int64{-9, 99}}, []float64{10 + 13, -3}, ""},
		{"zero counts in the mean", "mean", "zero", Bag{IDs: []int64{3, 4}}, []float64{6.5, -1.5}, ""},
		{"remainder as in Python", "sum", "hash-mod", Bag{IDs: []int64{-1}}, []float64{13, -3}, ""},
		{"remainder of the smallest id", "sum", "hash-mod", Bag{IDs: []int64{math.MinInt64}}, []float64{10, 0}, ""},
		{"remainder of a large id", "sum", "hash-mod", Bag{IDs: []int64{math.MaxInt64}}, []float64{13, -3}, ""},
		{"weights that do not fit", "sum", "reject", Bag{IDs: []int64{1}, Weights: []float32{1, 2}}, nil, `pool table "b": weights: got 2, want 1 (one per id)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := &b.Manifest.Tables[1]
			table.Combiner, table.IDPolicy = c.combiner, c.policy
			got, err := l.Pool(1, c.bag)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("error: got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	b.Manifest.Tables[0].Hotness = 2
	if _, err := l.Pool(0, Bag{IDs: []int64{1}}); err == nil || err.Error() != `pool table "a": ids: got 1, want 2` {
		t.Errorf("bag of a wrong size: got %v", err)
	}
}

func TestDCNv2ComputedByHand(t *testing.T) {
	b := tinyBundle(t, 0, named{
		"bottom.0.weight": {[]int64{1, 1}, []float32{2}},
		"bottom.0.bias":   {[]int64{1}, []float32{1}},
		"cross.0.v":       {[]int64{5, 1}, []float32{1, 0, 2, 0, 0}},
		"cross.0.w":       {[]int64{1, 5}, []float32{1, 2, 3, 4, 5}},
		"cross.0.bias":    {[]int64{5}, []float32{1, 0, 0, 0, -1}},
		"top.0.weight":    {[]int64{5, 2}, []float32{1, -1, 0, 0, 0, 0, 1, 0, 0, 1}},
		"top.0.bias":      {[]int64{2}, []float32{0, -100}},
		"top.1.weight":    {[]int64{2, 1}, []float32{0.125, 7}},
		"top.1.bias":      {[]int64{1}, []float32{-1}},
	})
	network, err := OpenDCNv2(b)
	if err != nil {
		t.Fatal(err)
	}
	// dense -0.25: z = relu(2·-0.25 + 1) = 0.5.  Bags a: {1} -> [1, -1], b: {2} -> [12, -2].
	// x0 = [0.5, 1, -1, 12, -2].  x0·V = 0.5 - 2 = -1.5, ·W = [-1.5, -3, -4.5, -6, -7.5], + bias = [-0.5, -3, -4.5, -6, -8.5].
	// x = x0·that + x0 = [0.25, -2, 3.5, -60, 15].
	// top.0: [0.25 + -60, -0.25 + 15 - 100] = [-59.75, -85.25] -> relu [0, 0];  top.1: -1;  sigmoid(-1).
	examples := []Example{
		{Bags: []Bag{{IDs: []int64{1}}, {IDs: []int64{2}}}, Dense: [][]float32{{-0.25}}},
		// dense -1: z = relu(-1) = 0.  Bags a: {} -> [0, 0], b: {0} -> [10, 0].  x0 = [0, 0, 0, 10, 0]; x0·V = 0, + bias; x = x0.
		// top.0: [10, -100] -> [10, 0];  top.1: 0.125·10 - 1 = 0.25.
		{Bags: []Bag{{}, {IDs: []int64{0}}}, Dense: [][]float32{{-1}}},
	}
	scores, err := Scores(context.Background(), b.Manifest, openLookup(t, b), network.Forward, examples)
	if err != nil {
		t.Fatal(err)
	}
	for i, logit := range []float64{-1, 0.25} {
		if want := 1 / (1 + math.Exp(-logit)); len(scores[i]) != 1 || scores[i][0] != want {
			t.Errorf("example %d: got %v, want %v", i, scores[i], want)
		}
	}
}

func TestReadoutComputedByHand(t *testing.T) {
	b := tinyBundle(t, 2, named{"readout": {[]int64{5, 2}, []float32{1, 0, 2, 0, 3, 0, 4, 0, 5, 1}}})
	network, err := OpenReadout(b)
	if err != nil {
		t.Fatal(err)
	}
	e := Example{Bags: []Bag{{IDs: []int64{1}}, {IDs: []int64{2}}}, Dense: [][]float32{{0.5}}}
	scores, err := Scores(context.Background(), b.Manifest, openLookup(t, b), network.Forward, []Example{e})
	if err != nil {
		t.Fatal(err)
	}
	// x = [1, -1, 12, -2, 0.5]
	if want := []float64{1 - 2 + 36 - 8 + 2.5, 0.5}; !slices.Equal(scores[0], want) {
		t.Errorf("got %v, want %v", scores[0], want)
	}
}

func TestOpenNamesTheWeightThatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights named
		want    string
	}{
		{"no layers", nil, `open dcnv2: load layers "bottom": got none`},
		{"no bias", named{"bottom.0.weight": {[]int64{1, 1}, []float32{1}}}, `open dcnv2: load weight "bottom.0.bias": got none`},
		{"wrong width", named{"bottom.0.weight": {[]int64{2, 1}, []float32{1, 1}}, "bottom.0.bias": {[]int64{1}, []float32{1}}}, `open dcnv2: load layer "bottom.0": got weight [2, 1] and bias [1], want weight [1, n] and bias [n]`},
		{"three dimensions", named{"bottom.0.weight": {[]int64{1, 1, 1}, []float32{1}}}, `open dcnv2: load weight "bottom.0.weight": got float32[1 1 1], want float32 with 1 or 2 dimensions`},
	} {
		if _, err := OpenDCNv2(tinyBundle(t, 0, c.weights)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := OpenReadout(tinyBundle(t, 0, named{"readout": {[]int64{4, 1}, make([]float32, 4)}})); err == nil || err.Error() != "open readout: got [4, 1], want [5, 1]" {
		t.Errorf("readout: got %v", err)
	}
}

func TestScoresNamesTheExample(t *testing.T) {
	b := tinyBundle(t, 0, named{"readout": {[]int64{5, 1}, make([]float32, 5)}})
	network, err := OpenReadout(b)
	if err != nil {
		t.Fatal(err)
	}
	l := openLookup(t, b)
	good := Example{Bags: []Bag{{}, {}}, Dense: [][]float32{{0}}}
	for _, c := range []struct {
		bad  Example
		want string
	}{
		{Example{Bags: []Bag{{}}, Dense: [][]float32{{0}}}, "score example 1: got 1 bags and 1 dense inputs, want 2 and 1"},
		{Example{Bags: []Bag{{}, {}}, Dense: [][]float32{{0, 1}}}, `score example 1: dense input "dense": got 2 features, want 1`},
		{Example{Bags: []Bag{{IDs: []int64{7}}, {}}, Dense: [][]float32{{0}}}, `score example 1: pool table "a": position 0: id: got 7, want 0 to 3`},
	} {
		if _, err := Scores(context.Background(), b.Manifest, l, network.Forward, []Example{good, c.bad}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestGoldenNamesTensorsAsClientsDo(t *testing.T) {
	b := tinyBundle(t, 2, nil)
	b.Manifest.Tables[0].Hotness = 1
	examples := []Example{
		{Bags: []Bag{{IDs: []int64{1}}, {IDs: []int64{2, 3}, Weights: []float32{5, 6}}}, Dense: [][]float32{{7}}},
		{Bags: []Bag{{IDs: []int64{0}}, {IDs: []int64{1}}}, Dense: [][]float32{{8}}},
	}
	list, err := Golden(b.Manifest, examples, [][]float64{{0.1, 0.2}, {0.3, 0.4}})
	if err != nil {
		t.Fatal(err)
	}
	ids := func(vs ...int64) []byte {
		var out []byte
		for _, v := range vs {
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		}
		return out
	}
	want := []model.NamedTensor{
		{Name: "a", DType: dtype.Int64, Shape: []int64{2, 1}, Data: ids(1, 0)},
		{Name: "b.values", DType: dtype.Int64, Shape: []int64{3}, Data: ids(2, 3, 1)},
		{Name: "b.lengths", DType: dtype.Int32, Shape: []int64{2}, Data: []byte{2, 0, 0, 0, 1, 0, 0, 0}},
		{Name: "b.weights", DType: dtype.Float32, Shape: []int64{3}, Data: floats(5, 6, 1)},
		{Name: "dense", DType: dtype.Float32, Shape: []int64{2, 1}, Data: floats(7, 8)},
		{Name: "expect.score", DType: dtype.Float32, Shape: []int64{2, 2}, Data: floats(0.1, 0.2, 0.3, 0.4)},
	}
	if len(list) != len(want) {
		t.Fatalf("got %d tensors, want %d", len(list), len(want))
	}
	for i, w := range want {
		g := list[i]
		if g.Name != w.Name || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || string(g.Data) != string(w.Data) {
			t.Errorf("tensor %d: got %+v, want %+v", i, g, w)
		}
	}
	if _, err := Golden(b.Manifest, examples, nil); err == nil || !strings.Contains(err.Error(), "got 0 rows, want 2") {
		t.Errorf("scores of another number of rows: got %v", err)
	}
}
