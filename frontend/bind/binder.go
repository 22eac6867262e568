package bind

import (
	"fmt"
	"slices"
	"strings"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
	"rankd/model"
)

// Options are the limits of a request.
type Options struct {
	MaxRequestRows int // rows a request; 0: no limit
}

// role says what an input is to its table or to the model.
type role uint8

const (
	roleIDs role = iota
	roleValues
	roleLengths
	roleOffsets
	roleWeights
	rolePacked
	roleDense
	roleCount
)

// suffixes of the input names that belong to a table.
var suffixes = [roleCount]string{roleValues: ".values", roleLengths: ".lengths", roleOffsets: ".offsets", roleWeights: ".weights"}

// tableRoles is the number of inputs that a table may have; they are neighbours in Binder.inputs.
const tableRoles = int(roleWeights) + 1

// input is one name that the model takes.
type input struct {
	name  string
	role  role
	index int // of the table or the dense input
}

// Binder holds the inputs of one model. It is read-only.
type Binder struct {
	opt     Options
	inputs  []input // table i's begin at i*tableRoles, dense inputs follow, the packed one is last
	byName  map[string]int32
	tables  []model.Table
	dense   []model.Dense
	strides []int // bytes a row of each packed array
	columns int   // ids a row of the packed tensor; 0: the model has none
	first   []int // first column of each table in it
	outputs []wire.Output
	scores  int // float32 columns of the score matrix
	takes   string
}

// New prepares a model, whose manifest must be valid.
func New(m *model.Manifest, opt Options) (*Binder, error) {
	b := &Binder{opt: opt, tables: slices.Clone(m.Tables), dense: slices.Clone(m.Dense), byName: map[string]int32{}}
	for i := range b.tables {
		for r := roleIDs; r <= roleWeights; r++ {
			b.inputs = append(b.inputs, input{b.tables[i].Name + suffixes[r], r, i})
		}
	}
	for i := range b.dense {
		d := &b.dense[i]
		if d.DType != dtype.Float32 {
			return nil, fmt.Errorf("bind model %q: dense input %q is %s in the packed row, want float32", m.Name, d.Name, d.DType)
		}
		b.inputs = append(b.inputs, input{d.Name, roleDense, i})
	}
	if b.columns = b.placePacked(); b.columns > 0 {
		b.inputs = append(b.inputs, input{model.PackedIDs, rolePacked, 0})
	}
	for i := range b.inputs {
		if _, dup := b.byName[b.inputs[i].name]; dup {
			return nil, fmt.Errorf("bind model %q: two inputs are called %q", m.Name, b.inputs[i].name)
		}
		b.byName[b.inputs[i].name] = int32(i)
	}
	if len(b.inputs) == 0 {
		return nil, fmt.Errorf("bind model %q: it has no inputs, want at least one", m.Name)
	}
	for _, p := range m.Packed {
		b.strides = append(b.strides, p.Stride)
	}
	for _, o := range m.Outputs {
		b.outputs = append(b.outputs, wire.Output{Name: o.Name, Width: o.Width, Column: o.Column})
	}
	b.scores = m.ScoreColumns()
	b.takes = b.listInputs()
	return b, nil
}

// placePacked gives each table its columns in the packed tensor, and returns how many there are.
func (b *Binder) placePacked() int {
	columns := 0
	for i := range b.tables {
		if b.tables[i].Hotness == 0 {
			return 0
		}
		b.first = append(b.first, columns)
		columns += b.tables[i].Hotness
	}
	return columns
}

// at is the index in inputs of a role of table t.
func at(t int, r role) int { return t*tableRoles + int(r) }

func (b *Binder) denseAt(d int) int { return len(b.tables)*tableRoles + d }

func (b *Binder) packedAt() int { return len(b.inputs) - 1 }

// maxListed is how many inputs a message lists.
const maxListed = 64

// listInputs is what messages say that the model takes, such as: "user" [B,1], "clicks" ragged, "dense" [B,13].
func (b *Binder) listInputs() string {
	var all []string
	for i := range b.tables {
		if hot := b.tables[i].Hotness; hot > 0 {
			all = append(all, fmt.Sprintf("%q [B,%d]", b.tables[i].Name, hot))
		} else {
			all = append(all, fmt.Sprintf("%q ragged", b.tables[i].Name))
		}
	}
	for i := range b.dense {
		all = append(all, fmt.Sprintf("%q [B,%d]", b.dense[i].Name, b.dense[i].Width))
	}
	if more := len(all) - maxListed; more > 0 {
		all = append(all[:maxListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// Input describes an input in the form that clients are told of.
type Input struct {
	Name  string
	DType dtype.DType
	Shape []int64 // -1 where any size is taken
}

// Inputs lists the model's inputs in one of the forms that it takes: a table's own tensor, or values and lengths.
func (b *Binder) Inputs() []Input {
	var all []Input
	for i := range b.tables {
		t := &b.tables[i]
		if t.Hotness > 0 {
			all = append(all, Input{t.Name, dtype.Int64, []int64{-1, int64(t.Hotness)}})
			continue
		}
		all = append(all, Input{t.Name + suffixes[roleValues], dtype.Int64, []int64{-1}},
			Input{t.Name + suffixes[roleLengths], dtype.Int32, []int64{-1}})
	}
	for i := range b.dense {
		all = append(all, Input{b.dense[i].Name, dtype.Float32, []int64{-1, int64(b.dense[i].Width)}})
	}
	return all
}

// Outputs lists the model's outputs. The slice is shared: read only.
func (b *Binder) Outputs() []wire.Output { return b.outputs }

// ScoreColumns is the number of float32 columns in a row of scores.
func (b *Binder) ScoreColumns() int { return b.scores }
