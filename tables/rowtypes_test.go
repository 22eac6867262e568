package tables

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/quantize"
	direct "rankd/model/reference"
)

// Tables of every row type, in segments of their own and mixed in one, against lookups in float64 in the bundle's files.
func TestRowTypesAgreeWithTheReference(t *testing.T) {
	specs := []spec{
		{50, 128, model.CombinerSum, model.PolicyReject},
		{60, 7, model.CombinerMean, model.PolicyZero},
		{70, 33, model.CombinerSqrtN, model.PolicyClamp},
		{80, 64, model.CombinerSum, model.PolicyHashMod},
	}
	float := makeBundle(t, specs)
	quantized := func(b *model.Bundle, to dtype.DType, tables ...string) *model.Bundle {
		dir := filepath.Join(t.TempDir(), to.String())
		made, _, err := quantize.Run(context.Background(), b, quantize.Options{Dir: dir, To: to, Tables: tables})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	bundles := map[string]*model.Bundle{"mixed": quantized(quantized(quantized(float, dtype.Int8, "t1"), dtype.Float16, "t2"), dtype.BFloat16, "t3")}
	for _, to := range model.RowDTypes() {
		if bundles[to.String()] = float; to != dtype.Float32 {
			bundles[to.String()] = quantized(float, to)
		}
	}
	for name, b := range bundles {
		t.Run(name, func(t *testing.T) {
			seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small})
			s := attach(t, int(seg.FD().Fd()), b.Manifest)
			l, err := direct.OpenLookup(b)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for _, k := range kernels() {
				s.kernel = k
				agree(t, s, l, specs)
			}
		})
	}
}

// agree looks random bags up, some with weights, and the first and last row of each table.
func agree(t *testing.T, s *Set, l *direct.Lookup, specs []spec) {
	const rows = 40
	seed := rand.Uint64()
	t.Logf("kernel %s, seed %d", s.Kernel(), seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	bags := make([]Bags, len(specs))
	want := make([][]direct.Bag, len(specs))
	for i, sp := range specs {
		var ids []int64
		var weights []float32
		b := Bags{Width: 8, Offsets: []int32{0}}
		for r := range rows {
			bag := direct.Bag{IDs: []int64{rng.Int64N(sp.rows)}, Weights: []float32{float32(rng.NormFloat64())}}
			if r < 2 {
				bag.IDs[0] = int64(r) * (sp.rows - 1)
			}
			for range rng.IntN(20) {
				bag.IDs = append(bag.IDs, rng.Int64N(sp.rows))
				bag.Weights = append(bag.Weights, 1+rng.Float32())
			}
			ids, weights = append(ids, bag.IDs...), append(weights, bag.Weights...)
			if i%2 == 0 {
				bag.Weights = nil
			}
			want[i] = append(want[i], bag)
			b.Offsets = append(b.Offsets, int32(len(ids)))
		}
		b.Values = ids64(ids...)
		if i%2 == 1 {
			b.Weights = floats(weights...)
		}
		bags[i] = b
	}
	got := lookup(t, s, bags, rows)
	for i := range specs {
		for r := range rows {
			pooled, err := l.Pool(i, want[i][r])
			if err != nil {
				t.Fatal(err)
			}
			limit := 2e-6 * magnitude(t, l, i, want[i][r], specs[i].combiner)
			for k, x := range pooled {
				g := float64(float(got[r*s.strides[0]+s.tables[i].col.offset:], k))
				if !(math.Abs(g-x) <= limit) {
					t.Fatalf("kernel %s table %d row %d element %d: got %v, want %v", s.Kernel(), i, r, k, g, x)
				}
			}
		}
	}
}

// magnitude is how large the terms of a bag's sum are together. The error of the sum in float32 is in proportion to it, also where the
// terms cancel out: up to 20 additions of terms that were rounded once or, with a scale and a bias, three times, each by 2^-24.
func magnitude(t *testing.T, l *direct.Lookup, table int, b direct.Bag, combiner string) float64 {
	t.Helper()
	all, weights := 1e-6, 0.0
	for j, id := range b.IDs {
		row, err := l.Pool(table, direct.Bag{IDs: []int64{id}})
		if err != nil {
			t.Fatal(err)
		}
		largest, w := 0.0, 1.0
		for _, x := range row {
			largest = max(largest, math.Abs(x))
		}
		if b.Weights != nil {
			w = float64(b.Weights[j])
		}
		all, weights = all+math.Abs(w)*largest, weights+w
	}
	switch combiner {
	case model.CombinerMean:
		return all / math.Abs(weights)
	case model.CombinerSqrtN:
		return all / math.Sqrt(float64(len(b.IDs)))
	}
	return all
}
