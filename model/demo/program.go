package demo

import (
	"cmp"
	"fmt"
	"strings"

	"rankd/internal/dtype"
	"rankd/model"
)

// emitter writes a StableHLO function line by line. Every value but the parameters and slices of them is a float32 matrix
// [batch, columns].
type emitter struct {
	body  strings.Builder
	count int
}

// value is an SSA value of type tensor<BATCH x columns x f32>, or of the element type that it names.
type value struct {
	name    string
	columns int
	element string // "": f32
}

func (v value) typ() string { return typeOf(v.columns, cmp.Or(v.element, "f32")) }

func batchType(columns int) string { return typeOf(columns, "f32") }

func typeOf(columns int, element string) string {
	return fmt.Sprintf("tensor<%sx%dx%s>", model.BatchToken, columns, element)
}

// elementNames are the names that StableHLO has for the types of packed arrays.
var elementNames = map[dtype.DType]string{dtype.Float32: "f32", dtype.BFloat16: "bf16"}

// packedOf is the parameters for the packed arrays.
func packedOf(m *model.Manifest) []value {
	var list []value
	for a, p := range m.Packed {
		name := "%packed"
		if a > 0 {
			name += fmt.Sprint(a)
		}
		list = append(list, value{name, p.Stride / p.DType.Size(), elementNames[p.DType]})
	}
	return list
}

// weightType is the type of a parameter that does not depend on the batch.
func weightType(shape []int) string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, n := range shape {
		fmt.Fprintf(&b, "%dx", n)
	}
	return b.String() + "f32>"
}

// argument is the SSA name of a weight.
func argument(name string) string { return "%" + strings.ReplaceAll(name, ".", "_") }

func (e *emitter) emit(columns int, format string, args ...any) value {
	v := value{name: fmt.Sprintf("%%%d", e.count), columns: columns}
	e.count++
	fmt.Fprintf(&e.body, "    %s = stablehlo.%s\n", v.name, fmt.Sprintf(format, args...))
	return v
}

// slice takes columns [from, from+columns) of x, as float32.
func (e *emitter) slice(x value, from, columns int) value {
	part := value{columns: columns, element: x.element}
	v := e.emit(columns, "slice %s [0:%s, %d:%d] : (%s) -> %s", x.name, model.BatchToken, from, from+columns, x.typ(), part.typ())
	if part.typ() == v.typ() {
		return v
	}
	return e.emit(columns, "convert %s : (%s) -> %s", v.name, part.typ(), batchType(columns))
}

// slot takes a vector of so many elements from the packed row, as float32.
func (e *emitter) slot(m *model.Manifest, s model.Slot, columns int) value {
	return e.slice(packedOf(m)[s.Array], s.Offset/m.Packed[s.Array].DType.Size(), columns)
}

func (e *emitter) concat(xs ...value) value {
	var names, types []string
	columns := 0
	for _, x := range xs {
		names = append(names, x.name)
		types = append(types, x.typ())
		columns += x.columns
	}
	return e.emit(columns, "concatenate %s, dim = 1 : (%s) -> %s", strings.Join(names, ", "), strings.Join(types, ", "), batchType(columns))
}

// dot is x·w with w [x.columns, columns]. exact asks the device for full float32 products instead of its faster default.
func (e *emitter) dot(x value, w string, columns int, exact bool) value {
	precision := ""
	if exact {
		precision = ", precision = [HIGHEST, HIGHEST]"
	}
	return e.emit(columns, "dot_general %s, %s, contracting_dims = [1] x [0]%s : (%s, %s) -> %s",
		x.name, argument(w), precision, x.typ(), weightType([]int{x.columns, columns}), batchType(columns))
}

// bias broadcasts a weight [columns] over the batch and adds it to x.
func (e *emitter) bias(x value, b string) value {
	all := e.emit(x.columns, "broadcast_in_dim %s, dims = [1] : (%s) -> %s", argument(b), weightType([]int{x.columns}), x.typ())
	return e.binary("add", x, all)
}

func (e *emitter) binary(op string, x, y value) value {
	return e.emit(x.columns, "%s %s, %s : %s", op, x.name, y.name, x.typ())
}

func (e *emitter) relu(x value) value {
	zero := e.emit(x.columns, "constant dense<0.000000e+00> : %s", x.typ())
	return e.binary("maximum", x, zero)
}

// function wraps the body: main(weights..., packed arrays [batch, columns]...) -> result.
func (e *emitter) function(module string, weights []weight, packed []value, result value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "module @%s {\n  func.func public @main(\n", module)
	for _, w := range weights {
		fmt.Fprintf(&b, "      %s: %s,\n", argument(w.name), weightType(w.shape))
	}
	for i, p := range packed {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "      %s: %s", p.name, p.typ())
	}
	fmt.Fprintf(&b, ") -> %s {\n%s    return %s : %s\n  }\n}\n", result.typ(), e.body.String(), result.name, result.typ())
	return b.String()
}

// layers emits a stack of layers named prefix.0, prefix.1, ... with relu between them and, where last is set, after the last.
func (e *emitter) layers(x value, prefix string, widths []int, last bool) value {
	for k, columns := range widths {
		x = e.dot(x, fmt.Sprintf("%s.%d.weight", prefix, k), columns, false)
		x = e.bias(x, fmt.Sprintf("%s.%d.bias", prefix, k))
		if last || k < len(widths)-1 {
			x = e.relu(x)
		}
	}
	return x
}

// programText is the StableHLO text of the whole network, from the packed row to the score [batch, 1].
func (a architecture) programText(m *model.Manifest) string {
	e := &emitter{}
	// The pooled vectors follow each other without gaps from the start of the row: one slice takes them all.
	pooled := e.slot(m, m.Tables[0].Slot, len(m.Tables)*tableDim)
	dense := e.slot(m, m.Dense[0].Slot, denseWidth)
	x0 := e.concat(e.layers(dense, "bottom", a.bottom, true), pooled)
	x := x0
	for k := range a.crosses {
		name := fmt.Sprintf("cross.%d", k)
		y := e.dot(e.dot(x, name+".v", a.crossRank, false), name+".w", x0.columns, false)
		y = e.bias(y, name+".bias")
		x = e.binary("add", e.binary("multiply", x0, y), x)
	}
	logit := e.layers(x, "top", a.top, false)
	score := e.emit(1, "logistic %s : %s", logit.name, logit.typ())
	return e.function("dlrm_dcnv2", a.weights(), packedOf(m), score)
}
