package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	line    = 64       // bytes of a cache line, and of a line of sums
	perLine = line / 4 // elements in a line of sums
	params  = "dst, mem *byte, addrs *uint64, lens *uint32, bags, ahead int, weights, factor *float32, tail int"
)

// form is how the elements of a table's rows are stored.
type form struct {
	name   string
	bytes  int // an element
	affine bool
}

var forms = []form{
	{name: "F32", bytes: 4},
	{name: "F16", bytes: 2},
	{name: "BF16", bytes: 2},
	{name: "I8", bytes: 1, affine: true},
}

// isa is a set of vector instructions.
type isa struct {
	name   string
	vector int   // bytes of a register
	lines  []int // widths of tiles, in lines
	reg    func() VecVirtual
}

func main() {
	ConstraintExpr("!noasm")
	for _, s := range []isa{
		{"AVX512", 64, []int{1, 2, 4, 8}, ZMM},
		{"AVX2", 32, []int{1, 2, 4}, YMM},
	} {
		for _, f := range forms {
			for _, n := range s.lines {
				tile(s, f, n)
			}
		}
		narrow(s)
	}
	Generate()
	if err := arm64("../kernel_tiles_arm64.s", "../kernel_tiles_arm64.go"); err != nil {
		fmt.Fprintln(os.Stderr, "kernelgen:", err)
		os.Exit(1)
	}
}

// function is what the function at hand works with.
type function struct {
	isa
	form
	n                                       int
	dst, mem, addr, left, ahead, w, f, tail Register
	lens, bags                              Register
	acc                                     []VecVirtual
	beta                                    VecVirtual // sum of the rows' biases, in every element
}

// tile writes the function that pools n lines of sums of some bags.
func tile(s isa, f form, n int) {
	name := fmt.Sprintf("pool%d%s%s", n, f.name, s.name)
	TEXT(name, NOSPLIT, "func("+params+")")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s pools %d elements of the rows of some bags; see tileFunc.", name, n*perLine))
	x := function{isa: s, form: f, n: n}
	x.dst, x.mem = Load(Param("dst"), GP64()), Load(Param("mem"), GP64())
	x.addr, x.ahead = Load(Param("addrs"), GP64()), Load(Param("ahead"), GP64())
	x.lens, x.bags = Load(Param("lens"), GP64()), Load(Param("bags"), GP64())
	x.w, x.f = Load(Param("weights"), GP64()), Load(Param("factor"), GP64())
	if f.affine {
		x.tail = Load(Param("tail"), GP64())
		x.beta = s.reg()
	}
	x.acc = make([]VecVirtual, n*line/s.vector)
	for i := range x.acc {
		x.acc[i] = s.reg()
	}

	Label("bag")
	left := GP64()
	x.left = left
	MOVL(Mem{Base: x.lens}, left.As32())
	for _, a := range x.acc {
		zero(s, a)
	}
	if f.affine {
		zero(s, x.beta)
	}
	TESTQ(x.left, x.left)
	JZ(LabelRef("sum"))
	TESTQ(x.w, x.w)
	JNZ(LabelRef("weighted"))
	x.loop("plain", false)
	JMP(LabelRef("sum"))
	x.loop("weighted", true)

	Label("sum")
	if f.affine {
		for _, a := range x.acc {
			VADDPS(x.beta, a, a)
		}
	}
	TESTQ(x.f, x.f)
	JZ(LabelRef("store"))
	factor := s.reg()
	VBROADCASTSS(Mem{Base: x.f}, factor)
	ADDQ(Imm(4), x.f)
	for _, a := range x.acc {
		VMULPS(factor, a, a)
	}

	Label("store")
	for i, a := range x.acc {
		VMOVUPS(a, Mem{Base: x.dst, Disp: i * s.vector})
	}
	ADDQ(U32(n*line), x.dst)
	ADDQ(Imm(4), x.lens)
	DECQ(x.bags)
	JNZ(LabelRef("bag"))
	VZEROUPPER()
	RET()
}

// loop adds the rows of the bag.
func (x *function) loop(label string, weighted bool) {
	Label(label)
	row := x.next()
	var w VecVirtual
	if weighted {
		w = x.reg()
		VBROADCASTSS(Mem{Base: x.w}, w)
	}
	if x.affine {
		w = x.scales(row, w)
	}
	for i, a := range x.acc {
		from := Mem{Base: row, Disp: i * x.vector / 4 * x.bytes}
		switch {
		case x.bytes == 4 && !weighted:
			VADDPS(from, a, a)
		case x.bytes == 4:
			y := x.reg()
			VMULPS(from, w, y)
			VADDPS(y, a, a)
		default:
			y := x.widen(from)
			if weighted || x.affine {
				VMULPS(w, y, y)
			}
			VADDPS(y, a, a)
		}
	}
	ADDQ(Imm(8), x.addr)
	if weighted {
		ADDQ(Imm(4), x.w)
	}
	DECQ(x.left)
	JNZ(LabelRef(label))
}

// scales gives the row's scale, times its weight if there is one, and adds its bias, times the same, to beta.
func (x *function) scales(row Register, weight VecVirtual) VecVirtual {
	scale, bias := x.reg(), x.reg()
	VBROADCASTSS(Mem{Base: row, Index: x.tail, Scale: 1}, scale)
	VBROADCASTSS(Mem{Base: row, Index: x.tail, Scale: 1, Disp: 4}, bias)
	if weight != nil {
		VMULPS(weight, scale, scale)
		VMULPS(weight, bias, bias)
	}
	VADDPS(bias, x.beta, x.beta)
	return scale
}

// widen loads elements of two bytes or one as float32.
func (x *function) widen(from Mem) VecVirtual {
	y := x.reg()
	switch x.form.name {
	case "F16":
		VCVTPH2PS(from, y)
	case "BF16":
		VPMOVZXWD(from, y)
		VPSLLD(Imm(16), y, y)
	case "I8":
		VPMOVZXBD(from, y)
		VCVTDQ2PS(y, y)
	}
	return y
}

// next loads the address of the row at hand and prefetches the same lines of a later one.
func (x *function) next() Register {
	row, later := GP64(), GP64()
	MOVQ(Mem{Base: x.addr, Index: x.ahead, Scale: 8}, later)
	MOVQ(Mem{Base: x.addr}, row)
	ADDQ(x.mem, later)
	ADDQ(x.mem, row)
	for at := 0; at < x.n*perLine*x.bytes; at += line {
		PREFETCHT0(Mem{Base: later, Disp: at})
	}
	if x.affine { // the last byte of the row, which need not begin where a line does
		PREFETCHT0(Mem{Base: later, Index: x.tail, Scale: 1, Disp: 7})
	}
	return row
}

func zero(s isa, r VecVirtual) {
	if s.vector == 64 {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}
