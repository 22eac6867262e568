package tables

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
)

// arena is memory that ends where no more may be touched: the page behind it faults.
type arena struct{ mem []byte }

func newArena(t testing.TB, size int) arena {
	page := os.Getpagesize()
	whole, err := unix.Mmap(-1, 0, (size+page-1)/page*page+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(whole) })
	end := len(whole) - page
	if err := unix.Mprotect(whole[end:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return arena{whole[end-size : end : end]}
}

// special are values that additions and products treat in their own ways.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1.1754944e-38, 3e-39,
}

// fill writes random elements, some of them special.
func fill(rng *rand.Rand, b []byte, strange float64) {
	for i := 0; i+4 <= len(b); i += 4 {
		x := float32(rng.NormFloat64())
		if rng.Float64() < strange {
			x = special[rng.IntN(len(special))]
		}
		le.PutUint32(b[i:], math.Float32bits(x))
	}
}

var rowDTypes = [forms]dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8}

// fillRow writes a random row. Halves are any 16 bits: infinities, NaNs and the smallest numbers are among them.
func fillRow(rng *rand.Rand, row []byte, f form, dim int, strange float64) {
	switch f {
	case float32s:
		fill(rng, row[:4*dim], strange)
	case int8s:
		for k := range dim {
			row[k] = byte(rng.Uint32())
		}
		fill(rng, row[dim:dim+8], strange)
	default:
		for k := range dim {
			h := uint16(rng.Uint32())
			if rng.Float64() >= strange {
				h &^= 1 << 14 // an exponent in the lower half: small numbers
			}
			le.PutUint16(row[2*k:], h)
		}
	}
}

// problem is a random call of a kernel. Rows of all columns lie in one arena and end at its end; all slots of a packed row
// have some bytes between them, at any alignment.
func problem(t testing.TB, rng *rand.Rand, dims []int) sweepArgs {
	const tableRows = 5
	strange := []float64{0, 0.01, 0.3}[rng.IntN(3)]
	a := sweepArgs{rows: 1 + rng.IntN(4)}
	size := 0
	kinds := make([]form, len(dims))
	strides := make([]int, len(dims))
	alike := make([]bool, len(dims)) // the column is a neighbour of the one before and of its kind: if it is as wide, both may be pooled in one call
	for i, dim := range dims {
		alike[i] = i > 0 && rng.IntN(4) > 0
		kinds[i] = form(rng.IntN(int(forms)))
		if alike[i] && rng.IntN(8) > 0 {
			kinds[i] = kinds[i-1]
		}
		strides[i] = int(strideOf(rowDTypes[kinds[i]], dim))
		size += int(align(int64(tableRows * strides[i])))
	}
	mem := newArena(t, size+line) // kernels may read a line beyond the last row
	a.mem = mem.mem
	var base []uint64
	offset, at := rng.IntN(9), 0
	for i, dim := range dims {
		col := column{offset: offset, dim: dim, form: kinds[i], half: rng.IntN(3) == 0, weighted: rng.IntN(3) == 0, scaled: rng.IntN(3) == 0}
		if alike[i] {
			offset = a.columns[i-1].offset + a.columns[i-1].bytes()
			other := col
			col = a.columns[i-1]
			col.offset, col.dim, col.form = offset, dim, kinds[i]
			switch rng.IntN(8) { // but for one thing
			case 0:
				col.half = other.half
			case 1:
				col.weighted = other.weighted
			case 2:
				col.scaled = other.scaled
			case 3:
				col.offset += 1 + rng.IntN(8)
				offset = col.offset
			}
		}
		a.columns = append(a.columns, col)
		base = append(base, uint64(at))
		offset += col.bytes() + rng.IntN(9)
		for r := range tableRows {
			fillRow(rng, a.mem[at+r*strides[i]:], kinds[i], dim, strange)
		}
		at += int(align(int64(tableRows * strides[i])))
	}
	a.strides = []int{offset}
	sums := 0
	for _, dim := range dims {
		sums += 4 * dim
	}
	a.wide = newArena(t, sums).mem
	for range a.rows {
		for c := range dims {
			n := rng.IntN(4)
			if rng.IntN(8) == 0 {
				n = 40
			}
			a.lens = append(a.lens, uint32(n))
			a.scales = append(a.scales, float32(rng.NormFloat64()))
			for range n {
				a.addrs = append(a.addrs, base[c]+uint64(rng.IntN(tableRows)*strides[c]))
				w := float32(rng.NormFloat64())
				if rng.Float64() < strange {
					w = special[rng.IntN(len(special))]
				}
				a.weights = append(a.weights, w)
			}
		}
	}
	for range prefetchPad {
		a.addrs = append(a.addrs, 0)
	}
	return a
}

// run gives the packed rows that a kernel makes of a, in memory that ends in a page that faults, with canaries in all other bytes.
func (k kernel) run(t testing.TB, a sweepArgs, shift int) []byte {
	size := a.rows * a.strides[0]
	out := newArena(t, size+shift)
	for i := range out.mem {
		out.mem[i] = 0xCC
	}
	a.dst = [][]byte{out.mem[shift:]}
	k.sweep(&a)
	if len(bytes.Trim(out.mem[:shift], "\xCC")) != 0 {
		t.Errorf("kernel %s wrote before its rows", k.name)
	}
	return out.mem[shift:]
}

// element is the first element of a pooled vector's bytes.
func (c *column) element(vector []byte) float32 {
	if c.half {
		return dtype.BFloat16ToFloat32(le.Uint16(vector))
	}
	return math.Float32frombits(le.Uint32(vector))
}

// compare wants the same bits, except in NaNs, which have many: which of two a sum keeps is the processor's.
func compare(t testing.TB, a *sweepArgs, name string, got, want []byte) {
	t.Helper()
	for r := range a.rows {
		row := r * a.strides[0]
		for c, col := range a.columns {
			size := col.bytes() / col.dim
			for k := range col.dim {
				i := row + col.offset + size*k
				g, w := col.element(got[i:]), col.element(want[i:])
				if math.Float32bits(g) != math.Float32bits(w) && !(math.IsNaN(float64(g)) && math.IsNaN(float64(w))) {
					t.Fatalf("kernel %s row %d column %d (%+v, %d ids) element %d: got %v (%#x), want %v (%#x)", name, r, c, col,
						a.lens[r*len(a.columns)+c], k, g, math.Float32bits(g), w, math.Float32bits(w))
				}
				for b := range size {
					got[i+b] = 0xCC
				}
			}
		}
	}
	if len(bytes.Trim(got, "\xCC")) != 0 {
		t.Fatalf("kernel %s wrote between the vectors", name)
	}
}

// check runs all kernels of this processor on one problem.
func check(t testing.TB, rng *rand.Rand, dims []int) {
	t.Helper()
	a := problem(t, rng, dims)
	want := generic.run(t, a, 0)
	for _, k := range kernels() {
		for _, shift := range []int{0, 1 + rng.IntN(63)} {
			compare(t, &a, k.name, k.run(t, a, shift), want)
		}
	}
}

func TestI6KernelsGiveTheSameBits(t *testing.T) {
	var names []string
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	t.Logf("kernels of this processor: %v", names)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for dim := 1; dim <= 300; dim++ { // all lengths, alone
		t.Run(fmt.Sprintf("dim=%d", dim), func(t *testing.T) { check(t, rng, []int{dim}) })
	}
	for n := range 100 { // and many bags of one usual width, which one call takes, weighted or not, of every combiner
		dim := 16 << (n % 5)
		t.Run(fmt.Sprintf("alike=%d", n), func(t *testing.T) { check(t, rng, slices.Repeat([]int{dim}, 6)) })
	}
	for n := range 300 { // and beside others
		t.Run(fmt.Sprintf("mixed=%d", n), func(t *testing.T) {
			dims := make([]int, 1+rng.IntN(6))
			for i := range dims {
				dims[i] = 1 + rng.IntN(200)
				if rng.IntN(2) == 0 {
					dims[i] = 16 << rng.IntN(5)
				}
				if i > 0 && rng.IntN(2) == 0 {
					dims[i] = dims[i-1]
				}
			}
			check(t, rng, dims)
		})
	}
}

// FuzzKernels lets the fuzzer choose the shapes.
func FuzzKernels(f *testing.F) {
	f.Add(uint64(1), uint16(128), uint16(1), uint16(17))
	f.Add(uint64(2), uint16(64), uint16(300), uint16(3))
	f.Fuzz(func(t *testing.T, seed uint64, x, y, z uint16) {
		var dims []int
		for _, d := range []uint16{x, y, z} {
			dims = append(dims, slices.Repeat([]int{1 + int(d)%512}, 1+int(d)/512%3)...)
		}
		check(t, rand.New(rand.NewPCG(seed, 0)), dims)
	})
}
