package rowcheck

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"rankd/internal/dtype"
)

// fills are what the padding of a batch may hold.
var fills = []struct {
	name string
	fill func(rng *rand.Rand, b []byte, d dtype.DType)
}{
	{"NaN", func(_ *rand.Rand, b []byte, d dtype.DType) {
		fillWith(b, d, func(d dtype.DType) uint64 { return special(d, math.NaN()) })
	}},
	{"infinities", func(rng *rand.Rand, b []byte, d dtype.DType) {
		fillWith(b, d, func(d dtype.DType) uint64 { return special(d, math.Inf(1-2*rng.IntN(2))) })
	}},
	{"large numbers", func(rng *rand.Rand, b []byte, d dtype.DType) {
		fillWith(b, d, func(d dtype.DType) uint64 { return encode(d, 30_000*(1+rng.Float64())) })
	}},
	{"random bits", func(rng *rand.Rand, b []byte, d dtype.DType) {
		fillWith(b, d, func(dtype.DType) uint64 { return rng.Uint64() })
	}},
	{"zeros", func(_ *rand.Rand, b []byte, _ dtype.DType) { clear(b) }},
}

// fillWith writes the low bytes of a value to every element.
func fillWith(b []byte, d dtype.DType, next func(dtype.DType) uint64) {
	size := d.Size()
	var word [8]byte
	for ; len(b) >= size; b = b[size:] {
		binary.LittleEndian.PutUint64(word[:], next(d))
		copy(b[:size], word[:])
	}
}

// ordinary is a normal value for a float, and a small one that any table or one-hot encoding has for an integer.
func ordinary(rng *rand.Rand, d dtype.DType, scale float64) uint64 {
	if isFloat(d) {
		return encode(d, scale*rng.NormFloat64())
	}
	return uint64(rng.IntN(2))
}

// special is a float that is not finite; for an integer all bits, which is the largest or -1.
func special(d dtype.DType, x float64) uint64 {
	if isFloat(d) {
		return encode(d, x)
	}
	return math.MaxUint64
}

func isFloat(d dtype.DType) bool {
	return d == dtype.Float16 || d == dtype.BFloat16 || d == dtype.Float32 || d == dtype.Float64
}

// encode returns x in the type's bits.
func encode(d dtype.DType, x float64) uint64 {
	f := math.Float32bits(float32(x))
	switch d {
	case dtype.Float64:
		return math.Float64bits(x)
	case dtype.Float32:
		return uint64(f)
	case dtype.BFloat16:
		return uint64(dtype.Float32ToBFloat16(float32(x)))
	case dtype.Float16:
		return uint64(dtype.Float32ToFloat16(float32(x)))
	}
	return uint64(int64(x))
}
