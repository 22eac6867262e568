package tables

import (
	"math/bits"
	"unsafe"
)

// lineElements is a line of sums, which the narrowest tile gives.
const lineElements = line / 4

// A tileFunc pools some lines of sums of one bag: dst = factor * Σ weights[i]*row(i), where row(i) starts at mem + addrs[i], as
// sweepGeneric does it. It reads ids addresses, and as many weights if weights is not nil; a nil factor is none. It prefetches
// the row at addrs[i+ahead], which must be a valid address. It reads and writes all of its lines. Rows of int8 have their scale
// tail bytes behind row(i), and their bias behind that.
//
// It runs without a check and without a point of preemption, so it gets one bag at a time.
type tileFunc func(dst, mem *byte, addrs *uint64, ids, ahead int, weights, factor *float32, tail int)

// A narrowFunc stores so many lines of sums as bfloat16, as narrow does it, in half as many bytes.
type narrowFunc func(dst, sums *byte, lines int)

// tiles are the tileFuncs for 1, 2, 4 and so on lines.
type tiles []tileFunc

// bagArgs are what the tiles of one bag have in common.
type bagArgs struct {
	mem             unsafe.Pointer
	addrs           *uint64
	ids, ahead      int
	weights, factor *float32
}

// run pools the lines from element at on into dst.
func (b *bagArgs) run(f tileFunc, dst *byte, col *column, at int) {
	size := col.form.bytes()
	f(dst, (*byte)(unsafe.Add(b.mem, at*size)), b.addrs, b.ids, b.ahead, b.weights, b.factor, (col.dim-at)*size)
}

// sweepTiles is sweep for a kernel made of tiles.
func (k *kernel) sweepTiles(a *sweepArgs) {
	mem := unsafe.Pointer(unsafe.SliceData(a.mem))
	bag, id := 0, 0
	for r := range a.rows {
		for c := range a.columns {
			col := &a.columns[c]
			b := bagArgs{mem: mem, addrs: &a.addrs[id], ids: int(a.lens[bag]), ahead: k.ahead}
			if col.weighted && b.ids > 0 {
				b.weights = &a.weights[id]
			}
			if col.scaled {
				b.factor = &a.scales[bag]
			}
			out := a.dst[col.array][r*a.strides[col.array]+col.offset:][:col.bytes()]
			if col.half {
				sums := a.wide[:4*col.dim]
				k.tiles[col.form].pool(&b, sums, col, &a.line)
				k.store(out, sums)
			} else {
				k.tiles[col.form].pool(&b, out, col, &a.line)
			}
			bag++
			id += b.ids
		}
	}
}

// store rounds sums, which are in the cache, to bfloat16. What is left of a line is rounded one by one.
func (k *kernel) store(out, sums []byte) {
	whole := len(sums) / line
	if whole > 0 {
		k.narrow(&out[0], &sums[0], whole)
	}
	narrow(out[line/2*whole:], sums[line*whole:])
}

// pool covers the lines of a bag with the widest tiles that fit. What is left of a line goes through scratch: no more than the
// vector may be written. Reading more is fine, since rows or the segment go on.
func (t tiles) pool(b *bagArgs, out []byte, col *column, scratch *[line]byte) {
	at := 0 // elements
	for left := col.dim / lineElements; left > 0; {
		k := min(bits.Len(uint(left)), len(t)) - 1
		b.run(t[k], &out[4*at], col, at)
		at += lineElements << k
		left -= 1 << k
	}
	if at < col.dim {
		b.run(t[0], &scratch[0], col, at)
		copy(out[4*at:], scratch[:])
	}
}
