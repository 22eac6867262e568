package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"rankd/internal/dtype"
	"rankd/model"
)

const (
	unit         = 1.0 / (1 << 24)
	weightFactor = 0x9E3779B1
	columnShift  = 10368889
	hashFactor   = 0x9E3779B97F4A7C15
)

// Layout is what the score needs to know of a model's packed row. It does not change and may be shared.
type Layout struct {
	strides []int // per packed array, bytes a row
	columns int
	scalars []scalar
	dense   int // index of the first dense scalar
	spans   []span
}

// scalar is a value of the row that goes into the score.
type scalar struct {
	array, offset int
	half          bool // bfloat16, else float32
	weight        float64
}

// span is the bytes of one slot.
type span struct{ array, offset, size int }

// LayoutOf takes the layout from a manifest. Slots must hold float32 or bfloat16 and lie within their packed row.
func LayoutOf(m *model.Manifest) (*Layout, error) {
	l := &Layout{columns: m.ScoreColumns()}
	for _, p := range m.Packed {
		l.strides = append(l.strides, p.Stride)
	}
	var errs []error
	add := func(name string, slot model.Slot, width, scalars int) {
		if slot.Array < 0 || slot.Array >= len(m.Packed) {
			errs = append(errs, fmt.Errorf("input %q: got packed array %d, want below %d", name, slot.Array, len(m.Packed)))
			return
		}
		p := m.Packed[slot.Array]
		size, half := p.DType.Size(), p.DType == dtype.BFloat16
		if !half && p.DType != dtype.Float32 {
			errs = append(errs, fmt.Errorf("input %q: got a packed array of %s, want float32 or bfloat16", name, p.DType))
		}
		if width < 1 || slot.Offset < 0 || slot.Offset+size*width > p.Stride {
			errs = append(errs, fmt.Errorf("input %q: got %d values at offset %d, want them within %d bytes", name, width, slot.Offset, p.Stride))
		}
		l.spans = append(l.spans, span{slot.Array, slot.Offset, size * width})
		for i := range scalars {
			l.scalars = append(l.scalars, scalar{slot.Array, slot.Offset + size*i, half, weight(len(l.scalars))})
		}
	}
	for i := range m.Tables {
		add(m.Tables[i].Name, m.Tables[i].Slot, m.Tables[i].Dim, 1)
	}
	l.dense = len(l.scalars)
	for i := range m.Dense {
		add(m.Dense[i].Name, m.Dense[i].Slot, m.Dense[i].Width, m.Dense[i].Width)
	}
	if l.columns < 1 {
		errs = append(errs, fmt.Errorf("outputs: got %d columns, want at least 1", l.columns))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read packed row layout: %w", err)
	}
	return l, nil
}

// weight returns the weight of scalar s: an odd multiple of 2^-24 below 1.
func weight(s int) float64 {
	return float64((uint32(2*s+1)*weightFactor)>>8|1) * unit
}

// Columns returns the number of scores a row.
func (l *Layout) Columns() int { return l.columns }

// Strides returns the bytes a row of each packed array. The caller must not change it.
func (l *Layout) Strides() []int { return l.strides }

// ScoreRow returns column 0 of the score of a row of a model with one packed array. row has the array's stride in bytes;
// full is as in Options.Full.
func ScoreRow(l *Layout, row []byte, full bool) float32 {
	rows := [1][]byte{row}
	return l.column(l.base(rows[:], 0, full), 0)
}

// Score writes the scores of row r, all columns, to dst. arrays are whole packed arrays or a single row of each (r is 0
// then); dst holds Columns values.
func (l *Layout) Score(dst []float32, arrays [][]byte, r int, full bool) {
	base := l.base(arrays, r, full)
	for c := range l.columns {
		dst[c] = l.column(base, c)
	}
}

// base is S of the package comment.
func (l *Layout) base(arrays [][]byte, r int, full bool) float64 {
	var s float64
	for i := range l.scalars {
		p := &l.scalars[i]
		s += p.weight * float64(p.value(arrays[p.array], r*l.strides[p.array]+p.offset))
	}
	if full {
		s += float64(l.checksum(arrays, r)>>40) * unit
	}
	return s
}

func (l *Layout) column(base float64, c int) float32 {
	x := base + float64(c)*(columnShift*unit)
	return float32(x - math.Floor(x))
}

func (l *Layout) checksum(arrays [][]byte, r int) (h uint64) {
	for _, p := range l.spans {
		at := r*l.strides[p.array] + p.offset
		b := arrays[p.array][at : at+p.size]
		for ; len(b) >= 8; b = b[8:] {
			h = (bits.RotateLeft64(h, 5) ^ binary.LittleEndian.Uint64(b)) * hashFactor
		}
		if len(b) > 0 {
			var last [8]byte
			copy(last[:], b)
			h = (bits.RotateLeft64(h, 5) ^ binary.LittleEndian.Uint64(last[:])) * hashFactor
		}
	}
	return h
}

// value reads the scalar at an offset.
func (p *scalar) value(b []byte, at int) float32 {
	if p.half {
		return dtype.BFloat16ToFloat32(binary.LittleEndian.Uint16(b[at:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
}
