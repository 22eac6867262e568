package demo

import (
	"encoding/binary"
	"math"
)

// stream is an endless sequence of random 64-bit words that are addressed by position (splitmix64 with the position as its
// counter). Word i depends only on the seed, the label and i.
type stream uint64

// increment is the odd constant of splitmix64: 2^64 divided by the golden ratio.
const increment = 0x9e3779b97f4a7c15

func newStream(seed uint64, label string) stream {
	h := uint64(14695981039346656037) // FNV-1a of the label keeps streams of one seed apart
	for i := range len(label) {
		h = (h ^ uint64(label[i])) * 1099511628211
	}
	return stream(mix(mix(seed+increment) ^ h))
}

// mix is the output function of splitmix64, a bijection.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s stream) word(i uint64) uint64 { return mix(uint64(s) + (i+1)*increment) }

// below returns number i of the stream as an integer in [0, n), n at least 1. Its bias, at most n/2^64, does not matter here.
func (s stream) below(i uint64, n int64) int64 { return int64(s.word(i) % uint64(n)) }

// unit returns number i of the stream as a float32 in [0, 1).
func (s stream) unit(i uint64) float32 { return float32(s.word(i)>>40) / (1 << 24) }

// fill writes float32 numbers, uniform in [-width, width), over dst: the numbers [first, first+len(dst)/4) of the stream.
// Each word gives two of them. Preconditions: first is even, len(dst) is a multiple of 8.
func (s stream) fill(dst []byte, first uint64, width float32) {
	// One multiplication a number and nothing to fuse it with, so that the bits are the same on every processor.
	scale := width / (1 << 23)
	x := uint64(s) + first/2*increment
	for len(dst) >= 8 {
		x += increment
		w := mix(x)
		low := math.Float32bits(float32(int32(w>>40)-1<<23) * scale)
		high := math.Float32bits(float32(int32(w>>16&0xffffff)-1<<23) * scale)
		binary.LittleEndian.PutUint64(dst, uint64(low)|uint64(high)<<32)
		dst = dst[8:]
	}
}
