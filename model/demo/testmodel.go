package demo

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/reference"
)

// TestOptions says what CreateTest makes. The zero value (and a Dir) is the plain test model: 4 tables of 1000 rows and dim 8
// with one id a bag, dense [B, 13], one output "score" [B], batches up to 256.
type TestOptions struct {
	Dir        string
	Name       string      // default "test"
	Version    string      // default "1"
	Tables     []TestTable // default: 4 of TestTable{Hotness: 1}
	DenseWidth int         // default 13; negative: no dense input
	MaxBatch   int         // default 256
	Buckets    []int       // default: powers of two up to MaxBatch
	PerTable   bool        // a second output "pooled" [B, tables]: column 0 of each table's pooled vector
	Pooled     dtype.DType // of pooled vectors on their way to the device; default float32
	Weighted   bool        // golden requests bring weights for ragged tables
	Golden     int         // golden requests; 0: 16, negative: none
	Seed       uint64      // of the golden requests; nothing else is random
}

// TestTable is a table called t<index>.
type TestTable struct {
	Rows     int64  // default 1000
	Dim      int    // default 8
	Hotness  int    // ids a bag; 0: ragged
	Combiner string // default "sum"
	IDPolicy string // default "reject"
}

// TestRow is the value in every column of row r of table t of a test model: 10000·t + r.
func TestRow(t int, r int64) float32 { return float32(int64(t)*10000 + r) }

// CreateTest makes a test model: row r of table t is filled with TestRow(t, r), and the outputs are
//
//	score      = sum over tables t of (t+1) · mean(pooled vector of t)  +  sum over features j of (j+1) · dense[j]
//	pooled[t]  = pooled vector of t, column 0 (with PerTable)
//
// With one id r[t] a bag: score = Σ (t+1)·(10000·t + r[t]) + Σ (j+1)·dense[j]. A wrong row, a row of another table, a torn
// row and a swapped example all change it. In the plain model every step is exact in float32 if the features are small
// integers, so scores may be compared for equality; that holds as long as dims are powers of two and 8 × the sum of
// the absolute values of all terms stays below 2^24. The error is as for Create.
func CreateTest(ctx context.Context, o TestOptions) (*model.Bundle, error) {
	o.setDefaults()
	m := o.manifest()
	w, err := model.Create(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("create test model: %w", err)
	}
	b, err := o.write(ctx, w, m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create test model: %w", err), w.Abort())
	}
	return b, nil
}

func (o *TestOptions) setDefaults() {
	o.Name = cmp.Or(o.Name, "test")
	o.Version = cmp.Or(o.Version, "1")
	o.MaxBatch = cmp.Or(o.MaxBatch, 256)
	o.Golden = cmp.Or(o.Golden, 16)
	o.DenseWidth = cmp.Or(o.DenseWidth, denseWidth)
	o.Pooled = cmp.Or(o.Pooled, dtype.Float32)
	if o.Buckets == nil {
		o.Buckets = PowersOfTwo(o.MaxBatch)
	}
	if o.Tables == nil {
		o.Tables = []TestTable{{Hotness: 1}, {Hotness: 1}, {Hotness: 1}, {Hotness: 1}}
	}
}

func (o *TestOptions) manifest() *model.Manifest {
	m := &model.Manifest{
		FormatVersion: model.FormatVersion,
		Name:          o.Name,
		Version:       o.Version,
		Outputs:       []model.Output{{Name: outputName}},
		MaxBatch:      o.MaxBatch,
		Buckets:       o.Buckets,
	}
	for t, x := range o.Tables {
		m.Tables = append(m.Tables, model.Table{
			Name:     fmt.Sprintf("t%d", t),
			Rows:     cmp.Or(x.Rows, 1000),
			Dim:      cmp.Or(x.Dim, 8),
			Hotness:  x.Hotness,
			Combiner: cmp.Or(x.Combiner, model.CombinerSum),
			IDPolicy: cmp.Or(x.IDPolicy, model.PolicyReject),
			RowDType: dtype.Float32,
			File:     tableFile(t),
			Tensor:   tableTensor,
		})
	}
	if o.DenseWidth > 0 {
		m.Dense = []model.Dense{{Name: denseName, Width: o.DenseWidth, DType: dtype.Float32}}
	}
	if o.PerTable {
		m.Outputs = append(m.Outputs, model.Output{Name: "pooled", Width: len(m.Tables), Column: 1})
	}
	m.AssignSlots(o.Pooled)
	m.Program = programOf(m, []weight{readoutWeight(m)})
	return m
}

func (o *TestOptions) write(ctx context.Context, w *model.Writer, m *model.Manifest) (*model.Bundle, error) {
	for i := range m.Tables {
		t := &m.Tables[i]
		err := w.AddTensors(ctx, t.File, []model.NamedTensor{{
			Name: t.Tensor, DType: dtype.Float32, Shape: []int64{t.Rows, int64(t.Dim)},
			Fill: func(out io.Writer) error { return writeTestRows(out, i, t) },
		}})
		if err != nil {
			return nil, err
		}
	}
	matrix := readoutWeight(m)
	err := w.AddTensors(ctx, weightsFile, []model.NamedTensor{{
		Name: matrix.name, DType: dtype.Float32, Shape: []int64{int64(matrix.shape[0]), int64(matrix.shape[1])}, Data: readoutData(m),
	}})
	if err != nil {
		return nil, err
	}
	if err := w.AddText(ctx, programFile, readoutProgram(m)); err != nil {
		return nil, err
	}
	if o.Golden > 0 {
		network, err := reference.OpenReadout(w.Unfinished(m))
		if err != nil {
			return nil, err
		}
		if err := addGolden(ctx, w, m, network.Forward, o.goldenExamples(m)); err != nil {
			return nil, err
		}
	}
	return w.Commit(m)
}

func writeTestRows(out io.Writer, t int, table *model.Table) error {
	row := make([]byte, model.RowBytes(table.RowDType, table.Dim))
	for r := range table.Rows {
		bits := math.Float32bits(TestRow(t, r))
		for at := 0; at < len(row); at += 4 {
			binary.LittleEndian.PutUint32(row[at:], bits)
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// readoutWeight is the only parameter: [all pooled columns and dense features, result columns].
func readoutWeight(m *model.Manifest) weight {
	n := 0
	for i := range m.Tables {
		n += m.Tables[i].Dim
	}
	for i := range m.Dense {
		n += m.Dense[i].Width
	}
	return weight{name: "readout", shape: []int{n, m.ScoreColumns()}}
}

// readoutData is the matrix that makes the outputs what CreateTest says.
func readoutData(m *model.Manifest) []byte {
	shape := readoutWeight(m).shape
	rows, columns := shape[0], shape[1]
	data := make([]byte, 4*rows*columns)
	set := func(row, column int, v float32) {
		binary.LittleEndian.PutUint32(data[4*(row*columns+column):], math.Float32bits(v))
	}
	row := 0
	for t := range m.Tables {
		if len(m.Outputs) > 1 {
			set(row, 1+t, 1)
		}
		for range m.Tables[t].Dim {
			set(row, 0, float32(t+1)/float32(m.Tables[t].Dim))
			row++
		}
	}
	for j := range rows - row {
		set(row+j, 0, float32(j+1))
	}
	return data
}

// readoutProgram takes each slot by itself: what lies between slots is undefined and must not be multiplied, not even by zero.
func readoutProgram(m *model.Manifest) string {
	e := &emitter{}
	var parts []value
	for i := range m.Tables {
		parts = append(parts, e.slot(m, m.Tables[i].Slot, m.Tables[i].Dim))
	}
	for i := range m.Dense {
		parts = append(parts, e.slot(m, m.Dense[i].Slot, m.Dense[i].Width))
	}
	result := e.dot(e.concat(parts...), "readout", m.ScoreColumns(), true)
	return e.function("readout", []weight{readoutWeight(m)}, packedOf(m), result)
}

// goldenExamples draws bags of up to 5 ids for ragged tables (some empty), and for tables whose policy takes them some ids
// outside the table. Dense features are small integers, so that the plain model's scores are exact.
func (o *TestOptions) goldenExamples(m *model.Manifest) []reference.Example {
	examples := make([]reference.Example, o.Golden)
	for e := range examples {
		x := &examples[e]
		for i := range m.Tables {
			x.Bags = append(x.Bags, o.goldenBag(&m.Tables[i], uint64(e)))
		}
		for _, d := range m.Dense {
			features := newStream(o.Seed, "golden "+d.Name)
			row := make([]float32, d.Width)
			for k := range row {
				row[k] = float32(features.below(uint64(e*d.Width+k), 8))
			}
			x.Dense = append(x.Dense, row)
		}
	}
	return examples
}

func (o *TestOptions) goldenBag(t *model.Table, e uint64) reference.Bag {
	// A stream a bag: ragged bags have no fixed places in a common one.
	numbers := newStream(o.Seed, fmt.Sprintf("golden %s %d", t.Name, e))
	n := t.Hotness
	if n == 0 {
		n = int(numbers.below(0, 6))
	}
	bag := reference.Bag{IDs: make([]int64, n)}
	for k := range bag.IDs {
		bag.IDs[k] = numbers.below(uint64(1+2*k), t.Rows)
		if t.IDPolicy != model.PolicyReject && numbers.below(uint64(2+2*k), 4) == 0 {
			bag.IDs[k] = t.Rows + bag.IDs[k]
			if k%2 == 1 {
				bag.IDs[k] = -bag.IDs[k]
			}
		}
	}
	if o.Weighted && t.Hotness == 0 {
		weights := newStream(o.Seed, fmt.Sprintf("golden weights %s %d", t.Name, e))
		bag.Weights = make([]float32, n)
		for k := range bag.Weights {
			bag.Weights[k] = 0.25 + float32(weights.below(uint64(k), 8))/4
		}
	}
	return bag
}
