package reference

import (
	"fmt"

	"rankd/model"
)

// Readout is the dense network of the test models: one matrix, "readout" [n, k], applied to the concatenation of all pooled
// vectors in the order of the tables and all dense inputs in their order. It has no bias and no activation.
type Readout struct{ weight matrix }

// OpenReadout copies the weight out of b.
func OpenReadout(b *model.Bundle) (*Readout, error) {
	m := b.Manifest
	file, err := model.OpenTensors(b.Path(m.Program.Weights))
	if err != nil {
		return nil, fmt.Errorf("open readout: %w", err)
	}
	defer file.Close()
	w, err := loadMatrix(file, "readout")
	if err != nil {
		return nil, fmt.Errorf("open readout: %w", err)
	}
	n := 0
	for i := range m.Tables {
		n += m.Tables[i].Dim
	}
	for i := range m.Dense {
		n += m.Dense[i].Width
	}
	if w.in != n || w.out != m.ScoreColumns() {
		return nil, fmt.Errorf("open readout: got [%d, %d], want [%d, %d]", w.in, w.out, n, m.ScoreColumns())
	}
	return &Readout{w}, nil
}

// Forward is a Network.
func (r *Readout) Forward(pooled [][]float64, dense [][]float32) []float64 {
	var x []float64
	for _, p := range pooled {
		x = append(x, p...)
	}
	for _, d := range dense {
		for _, v := range d {
			x = append(x, float64(v))
		}
	}
	return r.weight.times(x)
}
