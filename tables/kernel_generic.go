package tables

import (
	"math"

	"rankd/internal/dtype"
)

// column is a table as the kernel sees it: where its pooled vector goes and which steps its bags need.
type column struct {
	array    int // index into sweepArgs.dst and sweepArgs.strides
	offset   int // bytes from the start of the packed row
	dim      int // elements
	form     form
	half     bool // the pooled vector is stored as bfloat16, else as float32
	weighted bool
	scaled   bool
	group    int // scratch of a kernel of tiles: columns from this one on that it pools in one call
}

// bytes of the pooled vector in a packed row.
func (c *column) bytes() int {
	if c.half {
		return 2 * c.dim
	}
	return 4 * c.dim
}

// prefetchPad is how many addresses stand behind the last one that a kernel adds, so that it can prefetch ahead without
// asking whether it may. They are valid addresses.
const prefetchPad = 32

// sweepArgs is one call of a kernel: rows packed rows, for each of them all columns in order, one bag each.
//
// Preconditions, which Resolve and Sweep establish so that a kernel needs no checks:
//   - Every address is the offset in mem of a row of its column; mem goes on for a line after the last row.
//   - lens, and scales if not nil, have rows*len(columns) entries; addrs, and weights if not nil, have at least the sum
//     of lens, and addrs has prefetchPad valid entries more.
//   - scales is not nil if a column is scaled, weights is not nil if one is weighted.
//   - dst[array] holds rows*strides[array] bytes and offset+bytes() <= strides[array]. dst need not be aligned.
//   - wide has room for the float32 elements of all columns that are half.
//   - dst does not overlap mem.
type sweepArgs struct {
	mem     []byte    // the segment
	addrs   []uint64  // of all bags, row by row, column by column, in the order of the ids
	weights []float32 // per address; read for weighted columns
	lens    []uint32  // ids a bag
	scales  []float32 // per bag; read for scaled columns
	columns []column
	rows    int
	dst     [][]byte
	strides []int  // bytes from one packed row to the next, per array
	wide    []byte // scratch: sums before they are rounded to bfloat16

	line [line]byte // scratch, for the end of a vector that is no multiple of it
}

// sweepGeneric is the portable kernel and the specification of the others, which must give the same bits:
//
//	acc = +0 in every element
//	for each id of the bag, in order:  acc = acc + x            if the column is not weighted
//	                                   acc = acc + round(w*x)   if it is; the product is rounded to float32 first
//	acc = acc * scale                                           only if the column is scaled
//	store acc                                                   if the column is half: rounded to the nearest bfloat16, ties to even
//
// Elements of float16 and bfloat16 are widened, which is exact. A row of int8 has elements q from 0 to 255, a scale and a bias:
//
//	acc = +0 in every element, beta = +0
//	for each id of the bag, in order:  s, b = scale, bias       if the column is not weighted
//	                                   s, b = round(w*scale), round(w*bias)   if it is
//	                                   acc = acc + round(s*q),  beta = beta + b
//	acc = acc + beta
//
// So an empty bag gives +0, a bag of one row gives x + 0, and an unweighted sum multiplies nothing. Every value, also the
// padding of a packed row, that is not part of a column's dim elements is left as it was.
func sweepGeneric(a *sweepArgs) {
	bag, id := 0, 0
	for r := range a.rows {
		for c := range a.columns {
			col := &a.columns[c]
			vector := a.dst[col.array][r*a.strides[col.array]+col.offset:][:col.bytes()]
			out := vector
			if col.half {
				out = a.wide[:4*col.dim]
			}
			clear(out)
			end := id + int(a.lens[bag])
			beta := float32(0)
			for ; id < end; id++ {
				row, w := a.mem[a.addrs[id]:], float32(1)
				if col.weighted {
					w = a.weights[id]
				}
				switch {
				case col.form == int8s:
					beta += addBytes(out, row, w)
				case col.form != float32s:
					addHalves(out, row, w, col.form)
				case col.weighted:
					addScaled(out, row, w)
				default:
					add(out, row)
				}
			}
			if col.form == int8s {
				shift(out, beta)
			}
			if col.scaled {
				scale(out, a.scales[bag])
			}
			if col.half {
				narrow(vector, out)
			}
			bag++
		}
	}
}

// add adds the float32 elements of row to those of out.
func add(out, row []byte) {
	row = row[:len(out)]
	for i := 0; i+4 <= len(out); i += 4 {
		o, x := out[i:i+4:i+4], row[i:i+4:i+4]
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))+math.Float32frombits(le.Uint32(x))))
	}
}

// addScaled adds w times the elements of row to those of out.
func addScaled(out, row []byte, w float32) {
	row = row[:len(out)]
	for i := 0; i+4 <= len(out); i += 4 {
		o, x := out[i:i+4:i+4], row[i:i+4:i+4]
		product := float32(w * math.Float32frombits(le.Uint32(x))) // the conversion forbids a fused multiply-add
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))+product))
	}
}

// addHalves adds w times the elements of row, of two bytes each, to those of out. A weight of one changes no bit.
func addHalves(out, row []byte, w float32, f form) {
	for k := range len(out) / 4 {
		o := out[4*k : 4*k+4 : 4*k+4]
		product := float32(w * f.widen(row, k))
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))+product))
	}
}

// addBytes adds w times the scaled elements of row to those of out, and gives w times its bias.
func addBytes(out, row []byte, w float32) float32 {
	dim := len(out) / 4
	s := float32(w * math.Float32frombits(le.Uint32(row[dim:])))
	for k := range dim {
		o := out[4*k : 4*k+4 : 4*k+4]
		product := float32(s * float32(row[k]))
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))+product))
	}
	return float32(w * math.Float32frombits(le.Uint32(row[dim+4:])))
}

// shift adds b to the elements of out.
func shift(out []byte, b float32) {
	for i := 0; i+4 <= len(out); i += 4 {
		o := out[i : i+4 : i+4]
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))+b))
	}
}

// narrow stores the elements of sums as bfloat16.
func narrow(out, sums []byte) {
	for k := range len(sums) / 4 {
		le.PutUint16(out[2*k:], dtype.Float32ToBFloat16(math.Float32frombits(le.Uint32(sums[4*k:]))))
	}
}

// scale multiplies the elements of out by s.
func scale(out []byte, s float32) {
	for i := 0; i+4 <= len(out); i += 4 {
		o := out[i : i+4 : i+4]
		le.PutUint32(o, math.Float32bits(math.Float32frombits(le.Uint32(o))*s))
	}
}
