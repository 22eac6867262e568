package reference

import (
	"fmt"
	"math"
	"slices"

	"rankd/model"
)

// DCNv2 is the dense network of DLRM-DCNv2:
//
//	z      = relu layers "bottom.0", "bottom.1", ... of the dense features
//	x0     = z followed by the pooled vectors in the order of the tables
//	x      = x0, then for each cross layer k: x = x0 * ((x·V)·W + b) + x, "cross.k.v" [n, r], "cross.k.w" [r, n], "cross.k.bias" [n]
//	score  = sigmoid of the layers "top.0", "top.1", ... of x, with relu between them
//
// Layers have the weights "<layer>.weight" [in, out] and "<layer>.bias" [out].
type DCNv2 struct {
	bottom, top []layer
	cross       []crossLayer
}

type crossLayer struct{ v, w, bias matrix }

// OpenDCNv2 copies the weights out of b, whose manifest must have one dense input.
func OpenDCNv2(b *model.Bundle) (*DCNv2, error) {
	m := b.Manifest
	if len(m.Dense) != 1 {
		return nil, fmt.Errorf("open dcnv2: dense inputs: got %d, want 1", len(m.Dense))
	}
	file, err := model.OpenTensors(b.Path(m.Program.Weights))
	if err != nil {
		return nil, fmt.Errorf("open dcnv2: %w", err)
	}
	defer file.Close()
	n := &DCNv2{}
	width := m.Dense[0].Width
	if n.bottom, width, err = loadStack(file, "bottom", width); err != nil {
		return nil, fmt.Errorf("open dcnv2: %w", err)
	}
	for i := range m.Tables {
		width += m.Tables[i].Dim
	}
	if n.cross, err = loadCross(file, width); err != nil {
		return nil, fmt.Errorf("open dcnv2: %w", err)
	}
	if n.top, width, err = loadStack(file, "top", width); err != nil {
		return nil, fmt.Errorf("open dcnv2: %w", err)
	}
	if width != m.ScoreColumns() {
		return nil, fmt.Errorf("open dcnv2: last layer: got %d columns, want %d", width, m.ScoreColumns())
	}
	return n, nil
}

// loadStack loads name.0, name.1, ... as far as they go, the first one for inputs of the given width, and returns the width
// of the last one's output.
func loadStack(file *model.Tensors, name string, width int) ([]layer, int, error) {
	var stack []layer
	names := file.Names()
	for k := 0; ; k++ {
		prefix := fmt.Sprintf("%s.%d", name, k)
		if !slices.Contains(names, prefix+".weight") {
			break
		}
		l, err := loadLayer(file, prefix, width)
		if err != nil {
			return nil, 0, err
		}
		stack = append(stack, l)
		width = l.weight.out
	}
	if len(stack) == 0 {
		return nil, 0, fmt.Errorf("load layers %q: got none", name)
	}
	return stack, width, nil
}

func loadCross(file *model.Tensors, width int) ([]crossLayer, error) {
	var layers []crossLayer
	names := file.Names()
	for k := 0; ; k++ {
		prefix := fmt.Sprintf("cross.%d", k)
		if !slices.Contains(names, prefix+".v") {
			return layers, nil
		}
		var c crossLayer
		for _, part := range []struct {
			name string
			to   *matrix
		}{{".v", &c.v}, {".w", &c.w}, {".bias", &c.bias}} {
			var err error
			if *part.to, err = loadMatrix(file, prefix+part.name); err != nil {
				return nil, err
			}
		}
		if c.v.in != width || c.w.in != c.v.out || c.w.out != width || c.bias.in != 1 || c.bias.out != width {
			return nil, fmt.Errorf("load layer %q: got v [%d, %d], w [%d, %d], bias [%d], want v [%d, r], w [r, %d], bias [%d]", prefix,
				c.v.in, c.v.out, c.w.in, c.w.out, c.bias.out, width, width, width)
		}
		layers = append(layers, c)
	}
}

// Forward is a Network.
func (n *DCNv2) Forward(pooled [][]float64, dense [][]float32) []float64 {
	z := make([]float64, len(dense[0]))
	for i, v := range dense[0] {
		z[i] = float64(v)
	}
	for _, l := range n.bottom {
		z = relu(l.apply(z))
	}
	x0 := z
	for _, p := range pooled {
		x0 = append(x0, p...)
	}
	x := slices.Clone(x0)
	for _, c := range n.cross {
		y := c.w.times(c.v.times(x))
		for i := range x {
			x[i] += x0[i] * (y[i] + float64(c.bias.data[i]))
		}
	}
	for k, l := range n.top {
		x = l.apply(x)
		if k < len(n.top)-1 {
			x = relu(x)
		}
	}
	for i := range x {
		x[i] = 1 / (1 + math.Exp(-x[i]))
	}
	return x
}
