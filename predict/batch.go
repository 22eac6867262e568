package predict

import (
	"encoding/binary"
	"math"

	"rankd/client"
	"rankd/internal/dtype"
)

// Batch is a run of rows as the tensors of one request.
type Batch struct {
	First   int64 // number of the first row in the file, from 0
	Rows    int
	Lines   []int // of a text file: number of each row's line, from 1; nil for arrays
	Tensors []client.Tensor
	Expect  map[string][]float32 // reference results by output, row-major; may be nil
}

// Source gives a file's rows in order.
type Source interface {
	// Next returns the next rows, at most limit of them, or io.EOF after the last. The batch belongs to the caller.
	Next(limit int) (*Batch, error)
	Close() error
}

// rows gathers examples that are read one by one.
type rows struct {
	schema *Schema
	n      int
	lines  []int    // of each row
	ids    [][]byte // by table, int64
	counts [][]byte // by table, int32: ids of each row
	dense  [][]byte // by dense input, float32
}

func newRows(s *Schema) *rows {
	return &rows{schema: s, ids: make([][]byte, len(s.Tables)), counts: make([][]byte, len(s.Tables)), dense: make([][]byte, len(s.Dense))}
}

func (r *rows) addID(table int, id int64) {
	r.ids[table] = binary.LittleEndian.AppendUint64(r.ids[table], uint64(id))
}

func (r *rows) endBag(table, count int) {
	r.counts[table] = binary.LittleEndian.AppendUint32(r.counts[table], uint32(count))
}

func (r *rows) addDense(input int, v float32) {
	r.dense[input] = binary.LittleEndian.AppendUint32(r.dense[input], math.Float32bits(v))
}

// mark is how much r holds; rollback forgets what was added since.
func (r *rows) mark() []int {
	var m []int
	for _, list := range [][][]byte{r.ids, r.counts, r.dense} {
		for _, b := range list {
			m = append(m, len(b))
		}
	}
	return m
}

func (r *rows) rollback(mark []int) {
	for _, list := range [][][]byte{r.ids, r.counts, r.dense} {
		for i := range list {
			list[i] = list[i][:mark[0]]
			mark = mark[1:]
		}
	}
}

// batch is what was gathered, as the tensors of a request.
func (r *rows) batch(first int64) *Batch {
	b := &Batch{First: first, Rows: r.n, Lines: r.lines}
	n := int64(r.n)
	for i, t := range r.schema.Tables {
		if t.Hot > 0 {
			b.Tensors = append(b.Tensors, client.Tensor{Name: t.Name, DType: dtype.Int64, Shape: []int64{n, int64(t.Hot)}, Data: r.ids[i]})
			continue
		}
		b.Tensors = append(b.Tensors,
			client.Tensor{Name: t.Name + ".values", DType: dtype.Int64, Shape: []int64{int64(len(r.ids[i]) / 8)}, Data: r.ids[i]},
			client.Tensor{Name: t.Name + ".lengths", DType: dtype.Int32, Shape: []int64{n}, Data: r.counts[i]})
	}
	for i, d := range r.schema.Dense {
		b.Tensors = append(b.Tensors, client.Tensor{Name: d.Name, DType: dtype.Float32, Shape: []int64{n, int64(d.Width)}, Data: r.dense[i]})
	}
	return b
}
