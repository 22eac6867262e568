package quantize

import (
	"encoding/binary"
	"fmt"
	"math"

	"rankd/internal/dtype"
)

var le = binary.LittleEndian

// encode writes the row x in type d to dst, which has model.RowBytes of room.
func encode(dst []byte, d dtype.DType, x []float64) error {
	switch d {
	case dtype.Float32:
		for k, v := range x {
			le.PutUint32(dst[4*k:], math.Float32bits(float32(v)))
		}
	case dtype.Float16:
		return encodeHalf(dst, x, dtype.Float32ToFloat16, dtype.Float16ToFloat32, "float16 holds at most 65504; bfloat16 holds it")
	case dtype.BFloat16:
		return encodeHalf(dst, x, dtype.Float32ToBFloat16, dtype.BFloat16ToFloat32, "bfloat16 holds at most 3.3895e38")
	case dtype.Int8:
		return encodeInt8(dst, x)
	default:
		return fmt.Errorf("row type: got %v", d)
	}
	return nil
}

// encodeHalf writes elements of two bytes. A finite element that becomes infinite is refused with what the type holds.
func encodeHalf(dst []byte, x []float64, narrow func(float32) uint16, widen func(uint16) float32, holds string) error {
	for k, v := range x {
		h := narrow(float32(v))
		if math.IsInf(float64(widen(h)), 0) && !math.IsInf(v, 0) {
			return fmt.Errorf("element %d: got %g, %s", k, v, holds)
		}
		le.PutUint16(dst[2*k:], h)
	}
	return nil
}

// encodeInt8 follows I3. Scale and bias are rounded to float32 first, and q is chosen for them as they are stored.
func encodeInt8(dst []byte, x []float64) error {
	low, high := math.Inf(1), math.Inf(-1)
	for k, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("element %d: got %g, int8 rows hold finite numbers only", k, v)
		}
		low, high = min(low, v), max(high, v)
	}
	scale, bias := float32((high-low)/255), float32(low)
	if math.IsInf(float64(scale), 0) {
		return fmt.Errorf("elements from %g to %g: the range does not fit float32", low, high)
	}
	for k, v := range x {
		q := 0.0
		if scale > 0 {
			q = math.RoundToEven((v - float64(bias)) / float64(scale))
		}
		dst[k] = byte(min(max(q, 0), 255))
	}
	le.PutUint32(dst[len(x):], math.Float32bits(scale))
	le.PutUint32(dst[len(x)+4:], math.Float32bits(bias))
	return nil
}
