package bind

import (
	"slices"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
	"rankd/tables"
)

// keepOffsets is the largest number of offsets (4 bytes each) that Reset keeps room for.
const keepOffsets = 1 << 18

// Query is a request that has been matched with a model. It aliases the request, and so the message that was decoded. The
// zero value is ready; use it again for any model.
type Query struct {
	Rows      int
	Bags      []tables.Bags // by table
	Broadcast bool          // some of the Bags are
	Outputs   []wire.Output // those to send

	dense   []denseData // by dense input
	strides []int       // bytes a row of each packed array; the binder's
	offsets []int32     // backs the Offsets of ragged bags

	place   []int32 // by Binder.inputs: 1 + index in the request's Inputs; 0: it did not come
	batches []batch // by table, then by dense input
	hints   []int32 // by position in a request: the input that came there last
}

// batch is the rows that an input brings.
type batch struct {
	rows  int
	input int // in Binder.inputs, for messages
}

// Reset lets go of the request. Memory is kept for the next one, but for offsets beyond 1 MiB.
func (q *Query) Reset() {
	clear(q.Bags)
	clear(q.dense)
	clear(q.Outputs)
	q.Rows, q.Broadcast = 0, false
	q.Bags, q.dense, q.Outputs, q.strides = q.Bags[:0], q.dense[:0], q.Outputs[:0], nil
	if q.offsets = q.offsets[:0]; cap(q.offsets) > keepOffsets {
		q.offsets = nil
	}
}

// prepare gives q the right sizes for b, with everything zero but the hints, which may be wrong without harm.
func (q *Query) prepare(b *Binder) {
	q.Reset()
	q.strides = b.strides
	q.Bags = sized(q.Bags, len(b.tables))
	q.dense = sized(q.dense, len(b.dense))
	q.place = sized(q.place, len(b.inputs))
	clear(q.place)
	q.batches = sized(q.batches, len(b.tables)+len(b.dense))
	q.hints = sized(q.hints, len(b.inputs))
}

// sized returns s with length n; elements beyond its old length are zero or left over.
func sized[E any](s []E, n int) []E { return slices.Grow(s[:0], n)[:n] }

// Bind matches r, a decoded request, with the model and writes the result to q, which aliases r and its message.
// Errors are *wire.Error.
func (b *Binder) Bind(r *wire.Request, q *Query) error {
	q.prepare(b)
	if err := b.match(r, q); err != nil {
		return err
	}
	if err := b.bindTables(r, q); err != nil {
		return err
	}
	if err := b.bindDense(r, q); err != nil {
		return err
	}
	if err := b.settleRows(q); err != nil {
		return err
	}
	if err := b.fillOffsets(r, q); err != nil {
		return err
	}
	var err error
	q.Outputs, err = r.SelectOutputs(q.Outputs, b.outputs)
	return err
}

// match finds the model's input for each tensor of the request. Clients tend to send their inputs in one order, so the input
// that came at a position last time is tried before the map.
func (b *Binder) match(r *wire.Request, q *Query) error {
	for i := range r.Inputs {
		name := r.Inputs[i].Name
		var in int32
		if i < len(q.hints) {
			in = q.hints[i]
		}
		if int(in) >= len(b.inputs) || b.inputs[in].name != string(name) {
			found, ok := b.byName[string(name)]
			if !ok {
				return wire.Errorf(wire.ReasonInput, "bind input %s: the model has no such input, want %s", wire.Quote(name), b.takes)
			}
			in = found
		}
		if q.place[in] != 0 {
			return wire.Errorf(wire.ReasonDuplicate, "bind input %s: got it twice, want it once", wire.Quote(name))
		}
		q.place[in] = int32(i + 1)
		q.hints[i] = in // in range: as many tensors as inputs, and none twice
	}
	return nil
}

// tensor is the request's tensor for an input, or nil.
func (q *Query) tensor(r *wire.Request, in int) *wire.Tensor {
	if p := q.place[in]; p != 0 {
		return &r.Inputs[p-1]
	}
	return nil
}

// settleRows makes every batch the request's rows or 1, and applies the limit.
func (b *Binder) settleRows(q *Query) error {
	most := q.batches[0]
	for _, c := range q.batches[1:] {
		if c.rows > most.rows {
			most = c
		}
	}
	for _, c := range q.batches {
		if c.rows == most.rows || c.rows == 1 {
			continue
		}
		note := ""
		if b.inputs[c.input].role == roleOffsets {
			note = ", so one offset more"
		}
		return wire.Errorf(wire.ReasonShape, "bind input %q: it has %d rows, want 1 or %d, the rows of %q%s",
			b.inputs[c.input].name, c.rows, most.rows, b.inputs[most.input].name, note)
	}
	if limit := b.opt.MaxRequestRows; limit > 0 && most.rows > limit {
		return wire.Errorf(wire.ReasonTooLarge, "bind request: it has %d rows, want at most %d (--max-request-rows)", most.rows, limit)
	}
	q.Rows = most.rows
	if q.Rows > 1 {
		for i := range q.Bags {
			q.Bags[i].Broadcast = q.batches[i].rows == 1
			q.Broadcast = q.Broadcast || q.Bags[i].Broadcast
		}
		for i := range q.dense {
			q.dense[i].broadcast = q.batches[len(q.Bags)+i].rows == 1
		}
	}
	return nil
}

// matrix checks that t is [rows, width], or [rows] if the width is 1 (flat), with at least one row, and returns both.
// A width of 0 takes any of at least 1.
func (b *Binder) matrix(t *wire.Tensor, width int) (rows, columns int, err error) {
	shape := t.Shape
	ok := len(shape) == 1 && width == 1
	if len(shape) == 2 { // a column at least, so that every row that is claimed has brought data
		ok = shape[1] >= 1 && (shape[1] == int64(width) || width == 0)
	}
	if !ok {
		form := "[B,%d]"
		switch width {
		case 0:
			return 0, 0, wire.Errorf(wire.ReasonShape, "bind input %s: got shape %s, want [B,hot] with hot of at least 1", wire.Quote(t.Name), wire.ShapeString(shape))
		case 1:
			form = "[B,%d] or [B]"
		}
		return 0, 0, wire.Errorf(wire.ReasonShape, "bind input %s: got shape %s, want "+form, wire.Quote(t.Name), wire.ShapeString(shape), width)
	}
	if shape[0] == 0 {
		return 0, 0, noRows(t, wire.ShapeString(shape))
	}
	columns = 1
	if len(shape) == 2 {
		columns = int(shape[1])
	}
	return int(shape[0]), columns, nil
}

// noRows refuses an empty batch. An empty answer would be as good, but then a client that lost its rows would not notice.
func noRows(t *wire.Tensor, shape string) error {
	return wire.Errorf(wire.ReasonShape, "bind input %s: got shape %s with 0 rows, want at least 1", wire.Quote(t.Name), shape)
}

// vector checks that t is [n], and returns n.
func vector(t *wire.Tensor, want string) (int, error) {
	if len(t.Shape) != 1 {
		return 0, wire.Errorf(wire.ReasonShape, "bind input %s: got shape %s, want %s", wire.Quote(t.Name), wire.ShapeString(t.Shape), want)
	}
	return int(t.Shape[0]), nil
}

// integers checks that t holds int32 or int64, and returns their width in bytes.
func integers(r *wire.Request, t *wire.Tensor) (int, error) {
	if t.DType != dtype.Int32 && t.DType != dtype.Int64 {
		return 0, wire.Errorf(wire.ReasonDType, "bind input %s: got %s, want %s or %s", wire.Quote(t.Name),
			r.DTypeName(t.DType), r.DTypeName(dtype.Int64), r.DTypeName(dtype.Int32))
	}
	return t.DType.Size(), nil
}
