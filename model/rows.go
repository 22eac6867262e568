package model

import (
	"encoding/binary"
	"math"

	"rankd/internal/dtype"
)

// RowDTypes lists how the rows of a table may be stored. An int8 row is FBGEMM's fused 8-bit row: one byte q an element, then
// scale and bias as float32; the element is scale*q + bias, with q from 0 to 255.
func RowDTypes() []dtype.DType {
	return []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8}
}

// scaleBytes is what an int8 row has besides its elements.
const scaleBytes = 8

// RowBytes is the size of a row of dim elements as it is stored in a file.
func RowBytes(d dtype.DType, dim int) int {
	if d == dtype.Int8 {
		return dim + scaleBytes
	}
	return dim * d.Size()
}

// Stored is the tensor of a table in its file: its dtype, and the elements of a row.
func (t *Table) Stored() (dtype.DType, int64) {
	if t.RowDType == dtype.Int8 {
		return dtype.Uint8, int64(t.Dim + scaleBytes)
	}
	return t.RowDType, int64(t.Dim)
}

// Bytes is the size of the table's rows as they are stored in its file.
func (t *Table) Bytes() int64 { return t.Rows * int64(RowBytes(t.RowDType, t.Dim)) }

// TableBytes is the size of all tables' rows as they are stored in their files.
func (m *Manifest) TableBytes() int64 {
	n := int64(0)
	for i := range m.Tables {
		n += m.Tables[i].Bytes()
	}
	return n
}

// Row writes the elements of a stored row to dst, exactly: len(dst) is the dim of its table.
func Row(dst []float64, d dtype.DType, row []byte) {
	le := binary.LittleEndian
	switch d {
	case dtype.Float32:
		for k := range dst {
			dst[k] = float64(math.Float32frombits(le.Uint32(row[4*k:])))
		}
	case dtype.Float16:
		for k := range dst {
			dst[k] = float64(dtype.Float16ToFloat32(le.Uint16(row[2*k:])))
		}
	case dtype.BFloat16:
		for k := range dst {
			dst[k] = float64(dtype.BFloat16ToFloat32(le.Uint16(row[2*k:])))
		}
	case dtype.Int8:
		scale, bias := math.Float32frombits(le.Uint32(row[len(dst):])), math.Float32frombits(le.Uint32(row[len(dst)+4:]))
		for k := range dst {
			dst[k] = float64(scale)*float64(row[k]) + float64(bias)
		}
	}
}
