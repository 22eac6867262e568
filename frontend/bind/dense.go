package bind

import (
	"encoding/binary"
	"math"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
)

// denseData is a dense input of a query: rows × width elements, aliasing the request.
type denseData struct {
	data      []byte
	dtype     dtype.DType
	width     int // columns
	array     int // packed array
	offset    int // bytes from the start of a packed row
	broadcast bool
}

// bindDense checks the dense inputs and notes where they lie.
func (b *Binder) bindDense(r *wire.Request, q *Query) error {
	for i := range b.dense {
		d := &b.dense[i]
		t := q.tensor(r, b.denseAt(i))
		if t == nil {
			return wire.Errorf(wire.ReasonMissing, "bind input %q: it is missing, want it; the model takes %s", d.Name, b.takes)
		}
		switch t.DType {
		case dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64:
		default:
			return wire.Errorf(wire.ReasonDType, "bind input %s: got %s, want %s, %s, %s or %s", wire.Quote(t.Name), r.DTypeName(t.DType),
				r.DTypeName(dtype.Float32), r.DTypeName(dtype.Float16), r.DTypeName(dtype.BFloat16), r.DTypeName(dtype.Float64))
		}
		rows, _, err := b.matrix(t, d.Width)
		if err != nil {
			return err
		}
		q.dense[i] = denseData{data: t.Data, dtype: t.DType, width: d.Width, array: d.Slot.Array, offset: d.Slot.Offset}
		q.batches[len(b.tables)+i] = batch{rows, b.denseAt(i)}
	}
	return nil
}

// CopyDense writes the dense features of rows [first, first+n) into packed rows: dst[a] is packed array a from the row that
// first is to become, with the manifest's stride. Nothing but the slots of dense inputs is written.
//
// Preconditions: the rows lie in [0, q.Rows), and dst has n rows in every array that a dense input has its slot in.
func (q *Query) CopyDense(dst [][]byte, first, n int) {
	for i := range q.dense {
		d := &q.dense[i]
		stride := q.strides[d.array]
		for row := range n {
			src := first + row
			if d.broadcast {
				src = 0
			}
			d.copyRow(dst[d.array][row*stride+d.offset:][:4*d.width], src)
		}
	}
}

// copyRow writes one row as float32.
func (d *denseData) copyRow(dst []byte, row int) {
	size := d.dtype.Size() * d.width
	src := d.data[row*size:][:size]
	switch d.dtype {
	case dtype.Float16:
		for c := range d.width {
			putFloat32(dst[4*c:], dtype.Float16ToFloat32(binary.LittleEndian.Uint16(src[2*c:])))
		}
	case dtype.BFloat16:
		for c := range d.width {
			putFloat32(dst[4*c:], dtype.BFloat16ToFloat32(binary.LittleEndian.Uint16(src[2*c:])))
		}
	case dtype.Float64:
		for c := range d.width {
			putFloat32(dst[4*c:], float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*c:]))))
		}
	default: // float32, bit by bit
		copy(dst, src)
	}
}

func putFloat32(dst []byte, v float32) { binary.LittleEndian.PutUint32(dst, math.Float32bits(v)) }
