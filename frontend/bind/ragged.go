package bind

import (
	"encoding/binary"
	"slices"

	"rankd/frontend/wire"
)

// fillOffsets turns lengths and offsets of any width into int32 offsets, and checks them against the ids that are there.
// It takes memory for rows that each have brought 4 bytes or more of the request.
func (b *Binder) fillOffsets(r *wire.Request, q *Query) error {
	total := 0
	for i := range b.tables {
		if q.ragged(i) {
			total += q.batches[i].rows + 1
		}
	}
	if total == 0 {
		return nil
	}
	q.offsets = slices.Grow(q.offsets[:0], total)
	for i := range b.tables {
		if !q.ragged(i) {
			continue
		}
		in := q.batches[i].input
		t, bags := q.tensor(r, in), &q.Bags[i]
		nnz := int64(len(bags.Values) / bags.Width)
		from := len(q.offsets)
		var err error
		if b.inputs[in].role == roleLengths {
			q.offsets, err = appendLengths(q.offsets, t, nnz)
		} else {
			q.offsets, err = appendOffsets(q.offsets, t, nnz)
		}
		if err != nil {
			return err
		}
		bags.Offsets = q.offsets[from:len(q.offsets):len(q.offsets)]
	}
	return nil
}

// ragged reports whether table i came as ragged bags.
func (q *Query) ragged(i int) bool { return q.Bags[i].Step == 0 }

// integer is element i of an int32 or int64 tensor.
func integer(t *wire.Tensor, i, width int) int64 {
	if width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(t.Data[4*i:])))
	}
	return int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
}

// appendLengths sums up lengths into offsets. A length is compared with the ids that are left before it is added, so no
// sum overflows.
func appendLengths(dst []int32, t *wire.Tensor, nnz int64) ([]int32, error) {
	width, sum := t.DType.Size(), int64(0)
	dst = append(dst, 0)
	for i := range int(t.Shape[0]) {
		n := integer(t, i, width)
		if n < 0 {
			return dst, wire.Errorf(wire.ReasonLengths, "bind input %s: row %d has length %d, want 0 or more", wire.Quote(t.Name), i, n)
		}
		if n > nnz-sum {
			return dst, wire.Errorf(wire.ReasonLengths, "bind input %s: row %d has length %d, want at most %d, what is left of %d ids",
				wire.Quote(t.Name), i, n, nnz-sum, nnz)
		}
		sum += n
		dst = append(dst, int32(sum))
	}
	if sum != nnz {
		return dst, wire.Errorf(wire.ReasonLengths, "bind input %s: the lengths add up to %d, want %d, the number of ids", wire.Quote(t.Name), sum, nnz)
	}
	return dst, nil
}

// appendOffsets copies offsets. Each lies between its predecessor and nnz, so none is cut when it becomes an int32.
func appendOffsets(dst []int32, t *wire.Tensor, nnz int64) ([]int32, error) {
	width, last := t.DType.Size(), int64(0)
	for i := range int(t.Shape[0]) {
		o := integer(t, i, width)
		switch {
		case i == 0 && o != 0:
			return dst, wire.Errorf(wire.ReasonOffsets, "bind input %s: it begins with %d, want 0", wire.Quote(t.Name), o)
		case o < last:
			return dst, wire.Errorf(wire.ReasonOffsets, "bind input %s: offset %d is %d after %d, want no less", wire.Quote(t.Name), i, o, last)
		case o > nnz:
			return dst, wire.Errorf(wire.ReasonOffsets, "bind input %s: offset %d is %d, want at most %d, the number of ids", wire.Quote(t.Name), i, o, nnz)
		}
		last = o
		dst = append(dst, int32(o))
	}
	if last != nnz {
		return dst, wire.Errorf(wire.ReasonOffsets, "bind input %s: it ends with %d, want %d, the number of ids", wire.Quote(t.Name), last, nnz)
	}
	return dst, nil
}
