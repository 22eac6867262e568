package tables

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/internal/testutil"
	"rankd/model"
)

// A pooled vector of bfloat16 is the one of float32, rounded once at its end; also one that is pooled once for all rows.
func TestPooledVectorsAreRoundedAtTheEnd(t *testing.T) {
	specs := []spec{
		{50, 128, model.CombinerSum, model.PolicyReject},
		{60, 7, model.CombinerMean, model.PolicyZero},
		{70, 33, model.CombinerSqrtN, model.PolicyClamp},
		{80, 16, model.CombinerSum, model.PolicyHashMod},
	}
	b := makeBundle(t, specs)
	seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small})
	m := *b.Manifest
	m.Tables = slices.Clone(m.Tables)
	m.AssignSlots(dtype.BFloat16)
	wide, half := attach(t, int(seg.FD().Fd()), b.Manifest), attach(t, int(seg.FD().Fd()), &m)

	const rows = 30
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var bags []Bags
	for i, sp := range specs {
		var ids []int64
		var weights []float32
		offsets := []int32{0}
		for range rows {
			for range rng.IntN(20) {
				ids, weights = append(ids, rng.Int64N(sp.rows)), append(weights, rng.Float32())
			}
			offsets = append(offsets, int32(len(ids)))
		}
		bags = append(bags, Bags{Values: ids64(ids...), Width: 8, Offsets: offsets})
		if i == 2 {
			bags[i].Weights = floats(weights...)
		}
	}
	for _, shared := range []bool{false, true} {
		if shared {
			bags[0] = Bags{Values: ids64(3, 4, 5), Width: 8, Hot: 3, Broadcast: true}
			bags[1] = Bags{Values: ids64(7), Width: 8, Hot: 1, Broadcast: true}
		}
		for _, k := range kernels() {
			t.Run(fmt.Sprintf("%s/shared=%v", k.name, shared), func(t *testing.T) {
				wide.kernel, half.kernel = k, k
				want, got := lookup(t, wide, bags, rows), lookup(t, half, bags, rows)
				differ := 0
				for i, sp := range specs {
					for r := range rows {
						x := want[r*wide.strides[0]+wide.tables[i].col.offset:]
						y := got[r*half.strides[0]+half.tables[i].col.offset:]
						for d := range sp.dim {
							w, g := dtype.Float32ToBFloat16(float(x, d)), le.Uint16(y[2*d:])
							if w != g {
								t.Fatalf("table %d row %d element %d: got %#x, want %#x, which is %v rounded", i, r, d, g, w, float(x, d))
							}
							if dtype.BFloat16ToFloat32(g) != float(x, d) {
								differ++
							}
						}
					}
				}
				if differ == 0 {
					t.Error("no element had to be rounded: this tests nothing")
				}
			})
		}
	}
}

func TestPackedArrayOfAnotherTypeIsRefused(t *testing.T) {
	b := makeBundle(t, []spec{{5, 4, model.CombinerSum, model.PolicyReject}})
	seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small})
	for _, p := range []model.PackedArray{{DType: dtype.Float64, Stride: 64}, {DType: dtype.BFloat16}} {
		m := *b.Manifest
		m.Packed = []model.PackedArray{p}
		if s, err := Attach(int(seg.FD().Fd()), &m); err == nil {
			t.Errorf("tables were attached to packed array %+v", p)
			_ = s.Close()
		}
	}
}
