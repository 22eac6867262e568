package tables

import "rankd/internal/dtype"

// form is how the elements of a row are stored.
type form uint8

const (
	float32s form = iota
	float16s
	bfloat16s
	int8s // bytes q, then float32 scale and bias: an element is scale*q + bias
	forms
)

var formOf = map[dtype.DType]form{dtype.Float32: float32s, dtype.Float16: float16s, dtype.BFloat16: bfloat16s, dtype.Int8: int8s}

// bytes of an element.
func (f form) bytes() int { return int(formBytes[f]) }

var formBytes = [forms]uint8{float32s: 4, float16s: 2, bfloat16s: 2, int8s: 1}

// widen gives element k of a row of float16 or bfloat16.
func (f form) widen(row []byte, k int) float32 {
	h := le.Uint16(row[2*k:])
	if f == bfloat16s {
		return dtype.BFloat16ToFloat32(h)
	}
	return dtype.Float16ToFloat32(h)
}
