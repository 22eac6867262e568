package reference

import (
	"encoding/binary"
	"fmt"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

// Golden returns the tensors of a golden file: the examples as a client would send them, one tensor per input, and the
// scores as "expect.<output>", rounded to float32. Ragged tables give "<table>.values" and "<table>.lengths", and
// "<table>.weights" where any of the bags has weights.
func Golden(m *model.Manifest, examples []Example, scores [][]float64) ([]model.NamedTensor, error) {
	if len(scores) != len(examples) {
		return nil, fmt.Errorf("encode golden: scores: got %d rows, want %d", len(scores), len(examples))
	}
	rows := int64(len(examples))
	var list []model.NamedTensor
	for t := range m.Tables {
		list = append(list, bagTensors(m, t, examples)...)
	}
	for i, d := range m.Dense {
		var data []byte
		for e := range examples {
			data = appendFloats(data, examples[e].Dense[i])
		}
		list = append(list, model.NamedTensor{Name: d.Name, DType: dtype.Float32, Shape: []int64{rows, int64(d.Width)}, Data: data})
	}
	for _, o := range m.Outputs {
		var data []byte
		for _, s := range scores {
			for _, v := range s[o.Column:][:o.Columns()] {
				data = appendFloats(data, []float32{float32(v)})
			}
		}
		shape := []int64{rows}
		if o.Width > 0 {
			shape = append(shape, int64(o.Width))
		}
		list = append(list, model.NamedTensor{Name: model.ExpectPrefix + o.Name, DType: dtype.Float32, Shape: shape, Data: data})
	}
	return list, nil
}

func bagTensors(m *model.Manifest, t int, examples []Example) []model.NamedTensor {
	var values, lengths, weights []byte
	weighted := false
	count := int64(0)
	for e := range examples {
		bag := examples[e].Bags[t]
		for _, id := range bag.IDs {
			values = binary.LittleEndian.AppendUint64(values, uint64(id))
		}
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(bag.IDs)))
		count += int64(len(bag.IDs))
		ws := bag.Weights
		if ws == nil {
			ws = make([]float32, len(bag.IDs))
			for i := range ws {
				ws[i] = 1
			}
		} else {
			weighted = true
		}
		weights = appendFloats(weights, ws)
	}
	table := &m.Tables[t]
	rows := int64(len(examples))
	if table.Hotness != 0 {
		return []model.NamedTensor{{Name: table.Name, DType: dtype.Int64, Shape: []int64{rows, int64(table.Hotness)}, Data: values}}
	}
	list := []model.NamedTensor{
		{Name: table.Name + ".values", DType: dtype.Int64, Shape: []int64{count}, Data: values},
		{Name: table.Name + ".lengths", DType: dtype.Int32, Shape: []int64{rows}, Data: lengths},
	}
	if weighted {
		list = append(list, model.NamedTensor{Name: table.Name + ".weights", DType: dtype.Float32, Shape: []int64{count}, Data: weights})
	}
	return list
}

func appendFloats(b []byte, fs []float32) []byte {
	for _, f := range fs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}
