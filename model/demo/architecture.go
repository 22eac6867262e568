package demo

import (
	"fmt"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

const (
	tableDim   = 128
	denseName  = "dense"
	denseWidth = 13
	outputName = "score"
)

// hotness is the number of ids a bag brings, per table: 214 in all.
var hotness = [...]int{3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1}

// fullRows is the number of rows per table at full scale: 204,184,588 rows, 104.5 GB.
var fullRows = [len(hotness)]int64{
	40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
	2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
}

// architecture is the widths of the dense network; see reference.DCNv2 for what it computes.
type architecture struct {
	bottom    []int // outputs of the bottom layers; the last one is tableDim
	crosses   int
	crossRank int
	top       []int // outputs of the top layers; the last one is 1
}

func fullArchitecture() architecture {
	return architecture{bottom: []int{512, 256, tableDim}, crosses: 3, crossRank: 512, top: []int{1024, 1024, 512, 256, 1}}
}

func smallArchitecture() architecture {
	return architecture{bottom: []int{32, tableDim}, crosses: 2, crossRank: 8, top: []int{32, 1}}
}

// interactionWidth is the width of x0: the bottom network's output and all pooled vectors.
func interactionWidth() int { return (1 + len(hotness)) * tableDim }

// weight is a parameter of the network: its numbers are uniform in [-width, width).
type weight struct {
	name  string
	shape []int
	width float64
}

// weights lists the parameters in the order of the program's arguments. Widths keep the variance of what flows through the
// network near 1 (Glorot for layers with relu, half of it through the cross layers, which add to their input), and
// biases are not zero, so that a program that forgets one gives other scores.
func (a architecture) weights() []weight {
	var list []weight
	layer := func(name string, in, out int, width float64) {
		list = append(list,
			weight{name + ".weight", []int{in, out}, width},
			weight{name + ".bias", []int{out}, 0.05})
	}
	in := denseWidth
	for k, out := range a.bottom {
		layer(fmt.Sprintf("bottom.%d", k), in, out, math.Sqrt(6/float64(in)))
		in = out
	}
	n := interactionWidth()
	for k := range a.crosses {
		name := fmt.Sprintf("cross.%d", k)
		list = append(list,
			weight{name + ".v", []int{n, a.crossRank}, math.Sqrt(3 / float64(n))},
			weight{name + ".w", []int{a.crossRank, n}, 0.5 * math.Sqrt(3/float64(a.crossRank))},
			weight{name + ".bias", []int{n}, 0.05})
	}
	in = n
	for k, out := range a.top {
		width := math.Sqrt(6 / float64(in))
		layer(fmt.Sprintf("top.%d", k), in, out, width)
		in = out
	}
	return list
}

// manifest describes the bundle, but for its digests.
func (o *Options) manifest(a architecture) *model.Manifest {
	m := &model.Manifest{
		FormatVersion: model.FormatVersion,
		Name:          o.Name,
		Version:       o.Version,
		Dense:         []model.Dense{{Name: denseName, Width: denseWidth, DType: dtype.Float32}},
		Outputs:       []model.Output{{Name: outputName}},
		MaxBatch:      o.MaxBatch,
		Buckets:       o.Buckets,
	}
	for t, hot := range hotness {
		rows := fullRows[t]
		if o.MaxVocab > 0 {
			rows = min(rows, o.MaxVocab)
		}
		m.Tables = append(m.Tables, model.Table{
			Name:     fmt.Sprintf("cat_%d", t),
			Rows:     rows,
			Dim:      tableDim,
			Hotness:  hot,
			Combiner: model.CombinerSum,
			IDPolicy: model.PolicyReject,
			RowDType: dtype.Float32,
			File:     tableFile(t),
			Tensor:   tableTensor,
		})
	}
	m.AssignSlots(o.Pooled)
	m.Program = programOf(m, a.weights())
	return m
}

const (
	tableTensor = "rows"
	weightsFile = "weights.safetensors"
	programFile = "programs/model.mlir"
)

func tableFile(t int) string { return fmt.Sprintf("tables/t%02d.safetensors", t) }

// programOf describes the one program file of a bundle made here: the weights are its first parameters, the packed arrays the last.
func programOf(m *model.Manifest, weights []weight) model.Program {
	p := model.Program{Weights: weightsFile, Files: []model.ProgramFile{{Batch: 0, File: programFile}}}
	for _, w := range weights {
		p.Inputs = append(p.Inputs, model.ProgramInput{Weight: w.name})
	}
	for a := range m.Packed {
		p.Inputs = append(p.Inputs, model.ProgramInput{Packed: &a})
	}
	return p
}
