package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

// ReadGolden reads the golden requests of a bundle and their scores, [examples][columns]: the inverse of Golden. The error wraps
// os.ErrNotExist if the bundle has none.
func ReadGolden(b *model.Bundle) (examples []Example, scores [][]float64, err error) {
	file, err := b.OpenGolden()
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	m := b.Manifest
	first, ok := file.Tensor(model.ExpectPrefix + m.Outputs[0].Name)
	if !ok || len(first.Shape) == 0 {
		return nil, nil, fmt.Errorf("read golden: no scores of output %q", m.Outputs[0].Name)
	}
	examples, scores = make([]Example, first.Shape[0]), make([][]float64, first.Shape[0])
	for t := range m.Tables {
		if err := readBags(file, &m.Tables[t], examples); err != nil {
			return nil, nil, fmt.Errorf("read golden: table %q: %w", m.Tables[t].Name, err)
		}
	}
	for _, d := range m.Dense {
		x, err := file.Want(d.Name, dtype.Float32, int64(len(examples)), int64(d.Width))
		if err != nil {
			return nil, nil, fmt.Errorf("read golden: %w", err)
		}
		for e, row := range floatRows(x.Data, len(examples), d.Width) {
			examples[e].Dense = append(examples[e].Dense, row)
		}
	}
	for _, o := range m.Outputs {
		x, ok := file.Tensor(model.ExpectPrefix + o.Name)
		if want := 4 * len(examples) * o.Columns(); !ok || len(x.Data) != want {
			return nil, nil, fmt.Errorf("read golden: scores of output %q: got %d bytes, want %d", o.Name, len(x.Data), want)
		}
		for e, row := range floatRows(x.Data, len(examples), o.Columns()) {
			for _, v := range row {
				scores[e] = append(scores[e], float64(v))
			}
		}
	}
	return examples, scores, nil
}

// floatRows gives the rows of a float32 matrix.
func floatRows(data []byte, rows, width int) [][]float32 {
	out := make([][]float32, rows)
	for r := range out {
		out[r] = make([]float32, width)
		for k := range out[r] {
			out[r][k] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*(r*width+k):]))
		}
	}
	return out
}

// readBags adds the bags of one table to the examples.
func readBags(file *model.Tensors, table *model.Table, examples []Example) error {
	rows := int64(len(examples))
	lengths := make([]int, rows)
	values, weights := model.Tensor{}, model.Tensor{}
	if table.Hotness != 0 {
		var err error
		if values, err = file.Want(table.Name, dtype.Int64, rows, int64(table.Hotness)); err != nil {
			return err
		}
		for e := range lengths {
			lengths[e] = table.Hotness
		}
	} else {
		counts, err := file.Want(table.Name+".lengths", dtype.Int32, rows)
		if err != nil {
			return err
		}
		for e := range lengths {
			lengths[e] = int(int32(binary.LittleEndian.Uint32(counts.Data[4*e:])))
		}
		values, _ = file.Tensor(table.Name + ".values")
		weights, _ = file.Tensor(table.Name + ".weights")
	}
	at := 0
	for e, n := range lengths {
		if n < 0 || 8*(at+n) > len(values.Data) || (weights.Data != nil && 4*(at+n) > len(weights.Data)) {
			return fmt.Errorf("bag %d: got %d ids behind %d, want them within %d", e, n, at, len(values.Data)/8)
		}
		bag := Bag{IDs: make([]int64, n)}
		for k := range n {
			bag.IDs[k] = int64(binary.LittleEndian.Uint64(values.Data[8*(at+k):]))
		}
		if weights.Data != nil {
			bag.Weights = floatRows(weights.Data[4*at:], 1, n)[0]
		}
		examples[e].Bags = append(examples[e].Bags, bag)
		at += n
	}
	return nil
}
