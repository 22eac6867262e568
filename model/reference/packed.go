package reference

import (
	"encoding/binary"
	"math"

	"rankd/model"
)

// PackedRow lays pooled vectors (one per table) and dense features (one slice per dense input) out as the model's programs take
// them: one row of each packed array, rounded to float32; what no slot covers is zero.
func PackedRow(m *model.Manifest, pooled [][]float64, dense [][]float32) [][]byte {
	arrays := make([][]byte, len(m.Packed))
	for a := range arrays {
		arrays[a] = make([]byte, m.Packed[a].Stride)
	}
	put := func(s model.Slot, k int, v float32) {
		binary.LittleEndian.PutUint32(arrays[s.Array][s.Offset+4*k:], math.Float32bits(v))
	}
	for t := range pooled {
		for k, v := range pooled[t] {
			put(m.Tables[t].Slot, k, float32(v))
		}
	}
	for d := range dense {
		for k, v := range dense[d] {
			put(m.Dense[d].Slot, k, v)
		}
	}
	return arrays
}
