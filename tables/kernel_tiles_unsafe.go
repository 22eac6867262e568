package tables

import (
	"math/bits"
	"unsafe"
)

// lineElements is a line of sums, which the narrowest tile gives.
const lineElements = line / 4

// A tileFunc pools some lines of sums of each of some bags, one at least: dst = factor * Σ weights[i]*row(i), where row(i) starts at
// mem + addrs[i], as sweepGeneric does it. Bag b has lens[b] addresses, and as many weights if weights is not nil, behind those of the
// bags before it; it has a factor of its own, unless factor is nil. Its lines come behind those of the bag before. It prefetches the
// row at addrs[i+ahead], which must be a valid address. It reads and writes all of its lines. Rows of int8 have their scale tail bytes
// behind row(i), and their bias behind that.
//
// It runs without a check and without a point of preemption, so it gets the bags of one packed row at most.
type tileFunc func(dst, mem *byte, addrs *uint64, lens *uint32, bags, ahead int, weights, factor *float32, tail int)

// A narrowFunc stores so many lines of sums as bfloat16, as narrow does it, in half as many bytes.
type narrowFunc func(dst, sums *byte, lines int)

// tiles are the tileFuncs for 1, 2, 4 and so on lines.
type tiles []tileFunc

// bagArgs are what the tiles of some bags have in common.
type bagArgs struct {
	mem             unsafe.Pointer
	addrs           *uint64
	lens            *uint32
	bags, ahead     int
	weights, factor *float32
}

// run pools the lines from element at on into dst.
func (b *bagArgs) run(f tileFunc, dst *byte, col *column, at int) {
	size := col.form.bytes()
	f(dst, (*byte)(unsafe.Add(b.mem, at*size)), b.addrs, b.lens, b.bags, b.ahead, b.weights, b.factor, (col.dim-at)*size)
}

// joins reports whether the bags of d, the column behind c, can be pooled in the same call as those of c: their vectors are
// neighbours and of the same kind.
func (c *column) joins(d *column) bool {
	return d.dim == c.dim && d.form == c.form && d.array == c.array && d.offset == c.offset+c.bytes() && d.half == c.half &&
		d.weighted == c.weighted && d.scaled == c.scaled
}

// group counts, for each column, those that one call of a tile can pool: itself, and as many behind it as join, if a tile is as wide as
// the vectors. A call for each bag costs a tenth of the time that its rows take.
func (k *kernel) group(columns []column) {
	for i := len(columns) - 1; i >= 0; i-- {
		c := &columns[i]
		c.group = 1
		if k.tiles[c.form].have(c.dim) && i+1 < len(columns) && c.joins(&columns[i+1]) {
			c.group += columns[i+1].group
		}
	}
}

// have reports whether there is a tile as wide as a vector of dim elements.
func (t tiles) have(dim int) bool {
	lines := uint(dim / lineElements)
	return dim%lineElements == 0 && bits.OnesCount(lines) == 1 && bits.Len(lines) <= len(t)
}

// sweepTiles is sweep for a kernel made of tiles.
func (k *kernel) sweepTiles(a *sweepArgs) {
	mem := unsafe.Pointer(unsafe.SliceData(a.mem))
	k.group(a.columns)
	bag, id := 0, 0
	for r := range a.rows {
		for c := 0; c < len(a.columns); {
			col := &a.columns[c]
			b := bagArgs{mem: mem, addrs: &a.addrs[id], lens: &a.lens[bag], bags: col.group, ahead: k.ahead}
			if col.weighted && id < len(a.weights) { // else none of these bags has ids
				b.weights = &a.weights[id]
			}
			if col.scaled {
				b.factor = &a.scales[bag]
			}
			out := a.dst[col.array][r*a.strides[col.array]+col.offset:][:col.group*col.bytes()]
			sums := out
			if col.half {
				sums = a.wide[:col.group*4*col.dim]
			}
			k.tiles[col.form].pool(&b, sums, col, &a.line)
			if col.half {
				k.store(out, sums)
			}
			for range col.group {
				id += int(a.lens[bag])
				bag++
			}
			c += col.group
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

// pool covers the lines of a bag, or of bags whose vectors are one tile each, with the widest tiles that fit. What is left of a line
// goes through scratch: no more than the vector may be written. Reading more is fine, since rows or the segment go on.
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
