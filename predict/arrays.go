package predict

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"rankd/client"
	"rankd/internal/dtype"
	"rankd/model"
)

// OpenNPZ reads an .npz file.
func OpenNPZ(name string) (Source, error) {
	all, err := readNPZ(name)
	if err != nil {
		return nil, err
	}
	return newArrays(name, all, nil)
}

// OpenTensors opens a safetensors file whose tensors are named as in a bundle's golden requests.
func OpenTensors(name string) (Source, error) {
	file, err := model.OpenTensors(name)
	if err != nil {
		return nil, fmt.Errorf("open examples: %w", err)
	}
	var all []array
	for _, n := range file.Names() {
		t, _ := file.Tensor(n)
		all = append(all, array{name: n, dtype: t.DType, shape: t.Shape, data: t.Data})
	}
	s, err := newArrays(name, all, file.Close)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// arrays is a source whose rows are all in memory.
type arrays struct {
	name   string
	close  func() error
	rows   int
	next   int
	fixed  []array // [rows, ...]
	ragged []raggedArray
	expect []array // [rows, ...] float32; the name is the output's
}

// raggedArray is a ragged table: its bags lie one after the other in values.
type raggedArray struct {
	table   string
	values  array
	weights *array
	offsets []int64 // rows + 1
}

func newArrays(name string, all []array, closer func() error) (*arrays, error) {
	s := &arrays{name: name, close: closer, rows: -1}
	byName := map[string]*array{}
	for i := range all {
		byName[all[i].name] = &all[i]
	}
	for i := range all {
		if err := s.add(&all[i], byName); err != nil {
			return nil, fmt.Errorf("read %s array %q: %w", name, all[i].name, err)
		}
	}
	if s.rows < 0 {
		return nil, fmt.Errorf("read %s: got no arrays, want one an input", name)
	}
	return s, nil
}

func (s *arrays) add(a *array, byName map[string]*array) error {
	if output, ok := strings.CutPrefix(a.name, model.ExpectPrefix); ok {
		if a.dtype != dtype.Float32 {
			return fmt.Errorf("got %s, want float32", a.dtype)
		}
		if err := s.settle(a.shape, 0); err != nil {
			return err
		}
		e := *a
		e.name = output
		s.expect = append(s.expect, e)
		return nil
	}
	if table, ok := strings.CutSuffix(a.name, ".values"); ok {
		return s.addRagged(table, a, byName)
	}
	for _, suffix := range []string{".lengths", ".offsets", ".weights"} {
		if table, ok := strings.CutSuffix(a.name, suffix); ok {
			if byName[table+".values"] == nil {
				return fmt.Errorf("array %q is missing beside it", table+".values")
			}
			return nil
		}
	}
	if err := s.settle(a.shape, 0); err != nil {
		return err
	}
	s.fixed = append(s.fixed, *a)
	return nil
}

// settle checks that an array has the rows of all others; more is what its first dimension has beyond them.
func (s *arrays) settle(shape []int64, more int64) error {
	if len(shape) == 0 {
		return errors.New("got a single value, want one a row")
	}
	rows := shape[0] - more
	if rows < 0 || rows > math.MaxInt32 {
		return fmt.Errorf("got %d rows, want 0 to %d", rows, math.MaxInt32)
	}
	if s.rows >= 0 && int(rows) != s.rows {
		return fmt.Errorf("got %d rows, want %d as in the arrays before it", rows, s.rows)
	}
	s.rows = int(rows)
	return nil
}

func (s *arrays) addRagged(table string, values *array, byName map[string]*array) error {
	lengths, offsets := byName[table+".lengths"], byName[table+".offsets"]
	if (lengths == nil) == (offsets == nil) {
		return fmt.Errorf("want one of %q and %q beside it", table+".lengths", table+".offsets")
	}
	if len(values.shape) != 1 {
		return fmt.Errorf("got shape %v, want one dimension", values.shape)
	}
	r := raggedArray{table: table, values: *values, weights: byName[table+".weights"]}
	if r.weights != nil && (len(r.weights.shape) != 1 || r.weights.shape[0] != values.shape[0]) {
		return fmt.Errorf("%q has shape %v, want %v", r.weights.name, r.weights.shape, values.shape)
	}
	var err error
	if lengths != nil {
		r.offsets, err = s.fromLengths(lengths, values.shape[0])
	} else {
		r.offsets, err = s.fromOffsets(offsets, values.shape[0])
	}
	if err != nil {
		return err
	}
	s.ragged = append(s.ragged, r)
	return nil
}

func (s *arrays) fromLengths(a *array, ids int64) ([]int64, error) {
	n, err := integersOf(a)
	if err != nil {
		return nil, err
	}
	if err := s.settle(a.shape, 0); err != nil {
		return nil, fmt.Errorf("%q: %w", a.name, err)
	}
	out := make([]int64, 1, len(n)+1)
	for row, l := range n {
		last := out[len(out)-1]
		if l < 0 || l > ids-last {
			return nil, fmt.Errorf("%q row %d is %d, want 0 to %d, the ids that are left", a.name, row, l, ids-last)
		}
		out = append(out, last+l)
	}
	if last := out[len(out)-1]; last != ids {
		return nil, fmt.Errorf("%q adds up to %d, want %d, the number of ids", a.name, last, ids)
	}
	return out, nil
}

func (s *arrays) fromOffsets(a *array, ids int64) ([]int64, error) {
	out, err := integersOf(a)
	if err != nil {
		return nil, err
	}
	if err := s.settle(a.shape, 1); err != nil {
		return nil, fmt.Errorf("%q: %w", a.name, err)
	}
	if out[0] != 0 || out[len(out)-1] != ids {
		return nil, fmt.Errorf("%q runs from %d to %d, want 0 to %d, the number of ids", a.name, out[0], out[len(out)-1], ids)
	}
	for i := 1; i < len(out); i++ {
		if out[i] < out[i-1] {
			return nil, fmt.Errorf("%q falls from %d to %d at %d, want it to rise", a.name, out[i-1], out[i], i)
		}
	}
	return out, nil
}

func integersOf(a *array) ([]int64, error) {
	if len(a.shape) != 1 {
		return nil, fmt.Errorf("%q has shape %v, want one dimension", a.name, a.shape)
	}
	out := make([]int64, a.shape[0])
	for i := range out {
		switch a.dtype {
		case dtype.Int32:
			out[i] = int64(int32(binary.LittleEndian.Uint32(a.data[4*i:])))
		case dtype.Int64:
			out[i] = int64(binary.LittleEndian.Uint64(a.data[8*i:]))
		default:
			return nil, fmt.Errorf("%q is %s, want int32 or int64", a.name, a.dtype)
		}
	}
	return out, nil
}

// Next slices the arrays; nothing but lengths is copied.
func (s *arrays) Next(limit int) (*Batch, error) {
	n := min(limit, s.rows-s.next)
	if n <= 0 {
		return nil, io.EOF
	}
	b := &Batch{First: int64(s.next), Rows: n}
	for i := range s.fixed {
		a := s.fixed[i].slice(s.next, n)
		b.Tensors = append(b.Tensors, client.Tensor{Name: a.name, DType: a.dtype, Shape: a.shape, Data: a.data})
	}
	for i := range s.ragged {
		b.Tensors = append(b.Tensors, s.ragged[i].slice(s.next, n)...)
	}
	for i := range s.expect {
		e := s.expect[i].slice(s.next, n)
		if b.Expect == nil {
			b.Expect = map[string][]float32{}
		}
		values := make([]float32, len(e.data)/4)
		for k := range values {
			values[k] = math.Float32frombits(binary.LittleEndian.Uint32(e.data[4*k:]))
		}
		b.Expect[e.name] = values
	}
	s.next += n
	return b, nil
}

// Close releases the file; batches that were returned must not be used afterwards.
func (s *arrays) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// slice is rows [first, first+n).
func (a *array) slice(first, n int) array {
	row := a.dtype.Size()
	for _, d := range a.shape[1:] {
		row *= int(d)
	}
	shape := append([]int64{int64(n)}, a.shape[1:]...)
	return array{name: a.name, dtype: a.dtype, shape: shape, data: a.data[first*row:][:n*row]}
}

func (r *raggedArray) slice(first, n int) []client.Tensor {
	from, to := int(r.offsets[first]), int(r.offsets[first+n])
	lengths := make([]byte, 0, 4*n)
	for row := first; row < first+n; row++ {
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(r.offsets[row+1]-r.offsets[row]))
	}
	values := r.values.slice(from, to-from)
	out := []client.Tensor{
		{Name: values.name, DType: values.dtype, Shape: values.shape, Data: values.data},
		{Name: r.table + ".lengths", DType: dtype.Int32, Shape: []int64{int64(n)}, Data: lengths},
	}
	if r.weights != nil {
		w := r.weights.slice(from, to-from)
		out = append(out, client.Tensor{Name: w.name, DType: w.dtype, Shape: w.shape, Data: w.data})
	}
	return out
}
