package tables

import (
	"math/bits"
	"unsafe"
)

// lineBytes is the width of the narrowest tile: a cache line, and what the rows of a segment are padded to.
const lineBytes = 64

// A tileFunc pools some lines of one bag: dst = factor * Σ weights[i]*row(i), where row(i) starts at mem + addrs[i], as
// sweepGeneric does it. It reads ids addresses, and as many weights if weights is not nil; a nil factor is none. It prefetches
// the row at addrs[i+ahead], which must be a valid address. It writes all of its lines.
//
// It runs without a check and without a point of preemption, so it gets one bag at a time.
type tileFunc func(dst, mem *byte, addrs *uint64, ids, ahead int, weights, factor *float32)

// tiles are the tileFuncs for 1, 2, 4 and so on lines.
type tiles []tileFunc

// sweep is a kernel made of tiles: it covers the lines of each bag with the widest tiles that fit.
func (t tiles) sweep(a *sweepArgs, ahead int) {
	mem := unsafe.SliceData(a.mem)
	bag, id := 0, 0
	for r := range a.rows {
		for c := range a.columns {
			col := &a.columns[c]
			n := int(a.lens[bag])
			var weights, factor *float32
			if col.weighted && n > 0 {
				weights = &a.weights[id]
			}
			if col.scaled {
				factor = &a.scales[bag]
			}
			out := a.dst[col.array][r*a.strides[col.array]+col.offset:][:4*col.dim]
			addrs := &a.addrs[id]
			at := 0
			for left := len(out) / lineBytes; left > 0; {
				k := min(bits.Len(uint(left)), len(t)) - 1
				t[k](&out[at], (*byte)(unsafe.Add(unsafe.Pointer(mem), at)), addrs, n, ahead, weights, factor)
				at += lineBytes << k
				left -= 1 << k
			}
			if at < len(out) {
				t[0](&a.line[0], (*byte)(unsafe.Add(unsafe.Pointer(mem), at)), addrs, n, ahead, weights, factor)
				copy(out[at:], a.line[:])
			}
			bag++
			id += n
		}
	}
}
