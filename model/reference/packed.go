package reference

import (
	"encoding/binary"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

// PackedRow lays pooled vectors (one per table) and dense features (one slice per dense input) out as the model's programs take
// them: one row of each packed array, pooled vectors rounded to float32 and then to the array's type; what no slot covers is
// zero.
func PackedRow(m *model.Manifest, pooled [][]float64, dense [][]float32) [][]byte {
	arrays := make([][]byte, len(m.Packed))
	for a := range arrays {
		arrays[a] = make([]byte, m.Packed[a].Stride)
	}
	put := func(s model.Slot, k int, v float32) {
		row := arrays[s.Array]
		if m.Packed[s.Array].DType == dtype.BFloat16 {
			binary.LittleEndian.PutUint16(row[s.Offset+2*k:], dtype.Float32ToBFloat16(v))
			return
		}
		binary.LittleEndian.PutUint32(row[s.Offset+4*k:], math.Float32bits(v))
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
