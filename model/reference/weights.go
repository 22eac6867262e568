package reference

import (
	"encoding/binary"
	"fmt"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

// matrix is a weight [in, out], row-major, or a bias (in is 1).
type matrix struct {
	in, out int
	data    []float32
}

// loadMatrix copies a float32 tensor of one or two dimensions.
func loadMatrix(file *model.Tensors, name string) (matrix, error) {
	t, ok := file.Tensor(name)
	if !ok {
		return matrix{}, fmt.Errorf("load weight %q: got none", name)
	}
	if t.DType != dtype.Float32 || len(t.Shape) < 1 || len(t.Shape) > 2 {
		return matrix{}, fmt.Errorf("load weight %q: got %s%v, want float32 with 1 or 2 dimensions", name, t.DType, t.Shape)
	}
	w := matrix{in: 1, out: int(t.Shape[len(t.Shape)-1]), data: make([]float32, t.Elements())}
	if len(t.Shape) == 2 {
		w.in = int(t.Shape[0])
	}
	for i := range w.data {
		w.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return w, nil
}

// times returns x·W.
func (w matrix) times(x []float64) []float64 {
	y := make([]float64, w.out)
	for i, xi := range x {
		row := w.data[i*w.out:][:w.out]
		for j, wij := range row {
			y[j] += xi * float64(wij)
		}
	}
	return y
}

// layer is x·W + b.
type layer struct{ weight, bias matrix }

// loadLayer loads prefix.weight [in, out] and prefix.bias [out].
func loadLayer(file *model.Tensors, prefix string, in int) (layer, error) {
	w, err := loadMatrix(file, prefix+".weight")
	if err != nil {
		return layer{}, err
	}
	b, err := loadMatrix(file, prefix+".bias")
	if err != nil {
		return layer{}, err
	}
	if w.in != in || b.in != 1 || b.out != w.out {
		return layer{}, fmt.Errorf("load layer %q: got weight [%d, %d] and bias [%d], want weight [%d, n] and bias [n]", prefix, w.in, w.out, b.out, in)
	}
	return layer{w, b}, nil
}

func (l layer) apply(x []float64) []float64 {
	y := l.weight.times(x)
	for j := range y {
		y[j] += float64(l.bias.data[j])
	}
	return y
}

func relu(x []float64) []float64 {
	for i := range x {
		x[i] = max(x[i], 0)
	}
	return x
}
