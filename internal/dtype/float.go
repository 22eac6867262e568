package dtype

import "math"

// Float16ToFloat32 widens an IEEE 754 binary16 value exactly; NaN payloads are kept in the top bits.
func Float16ToFloat32(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0: // zero or subnormal: frac × 2^-24, exact in float32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// BFloat16ToFloat32 widens a bfloat16 value exactly.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToFloat16 rounds to the nearest IEEE 754 binary16 value, to the even one of two. What is too large becomes infinity.
func Float32ToFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN: keep the top bits of the payload, and some bit
		return sign | 0x7c00 | uint16(magnitude>>13&0x3ff) | 1
	case magnitude >= 0x47800000: // 2^16 and above
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: steps of 2^-24; the addition rounds, since the sum's last bit is worth that
		const magic = 0x3f000000 // 0.5
		sum := math.Float32frombits(magnitude) + math.Float32frombits(magic)
		return sign | uint16(math.Float32bits(sum)-magic)
	}
	odd := magnitude >> 13 & 1
	return sign | uint16((magnitude-(127-15)<<23+0xfff+odd)>>13) // a carry into the exponent is right, up to infinity
}

// Float32ToBFloat16 rounds to the nearest bfloat16 value, to the even one of two.
func Float32ToBFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 1<<6
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
