package e2e

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
)

// Element types that are not the table's or the model's own are taken where their values can be kept; what arrives on the
// device is then exactly what the client meant.
func TestOtherElementTypesAreConvertedExactly(t *testing.T) {
	c := newClassroom(t)
	score, pool := simulated(t, c.exam.m), openPooling(t, testModel(t))
	half := func(bits uint16) []byte {
		var data []byte
		for range 3 * 13 {
			data = binary.LittleEndian.AppendUint16(data, bits)
		}
		return data
	}
	double := func(v float64) []byte {
		var data []byte
		for range 3 * 13 {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
		return data
	}
	for name, in := range map[string]struct {
		dense tensor
		means float32
	}{
		"float16 1.5":             {tensor{"dense", typeFloat16, []int64{3, 13}, half(0x3e00)}, 1.5},
		"float16 smallest":        {tensor{"dense", typeFloat16, []int64{3, 13}, half(0x0001)}, 0x1p-24},
		"float16 -65504":          {tensor{"dense", typeFloat16, []int64{3, 13}, half(0xfbff)}, -65504},
		"bfloat16 1.5":            {tensor{"dense", typeBFloat, []int64{3, 13}, half(0x3fc0)}, 1.5},
		"float64 1.5":             {tensor{"dense", typeFloat64, []int64{3, 13}, double(1.5)}, 1.5},
		"float64 that is rounded": {tensor{"dense", typeFloat64, []int64{3, 13}, double(0.1)}, 0.1},
		"float32, one row for all": {tensor{"dense", typeFloat32, []int64{1, 13}, floats(nil,
			2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5)}, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := &exam{m: c.exam.m, byScore: map[uint32]int{}}
			for _, p := range c.picks {
				x := c.exam.examples[p]
				x.dense = make([]float32, 13)
				for k := range x.dense {
					x.dense[k] = in.means
				}
				x.score = score(&x, pool.row(&x))
				wanted.examples = append(wanted.examples, x)
			}
			list := replace(in.dense)(c.good())
			for _, l := range c.lanes {
				reply, err := l.predict.Predict(context.Background(), c.exam.predictRequest(list))
				if err != nil {
					t.Fatalf("predict: %v", err)
				}
				if err := wanted.mark([]int{0, 1, 2}, reply.Outputs["score"].Data); err != nil {
					t.Errorf("predict: %v", err)
				}
				answer, err := l.infer.ModelInfer(context.Background(), c.exam.inferRequest(list))
				if err != nil {
					t.Fatalf("infer: %v", err)
				}
				if err := wanted.mark([]int{0, 1, 2}, answer.RawOutputContents[0]); err != nil {
					t.Errorf("infer: %v", err)
				}
			}
		})
	}
	c.wantUnmoved(t)
}
