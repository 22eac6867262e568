package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const line = 64 // bytes: of the cache, and of what all rows are padded to

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
		for _, n := range s.lines {
			tile(s, n)
		}
	}
	Generate()
	if err := arm64("../kernel_f32_arm64.s", "../kernel_f32_arm64.go"); err != nil {
		fmt.Fprintln(os.Stderr, "kernelgen:", err)
		os.Exit(1)
	}
}

// tile writes the function that pools n lines of one bag.
func tile(s isa, n int) {
	name := fmt.Sprintf("pool%dF32%s", n, s.name)
	TEXT(name, NOSPLIT, "func(dst, mem *byte, addrs *uint64, ids, ahead int, weights, factor *float32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s pools the next %d bytes of a bag's rows; see tileFunc.", name, n*line))
	dst := Load(Param("dst"), GP64())
	mem := Load(Param("mem"), GP64())
	addr := Load(Param("addrs"), GP64())
	left := Load(Param("ids"), GP64())
	ahead := Load(Param("ahead"), GP64())
	weights := Load(Param("weights"), GP64())
	factor := Load(Param("factor"), GP64())

	acc := make([]VecVirtual, n*line/s.vector)
	for i := range acc {
		acc[i] = s.reg()
		zero(s, acc[i])
	}
	TESTQ(left, left)
	JZ(LabelRef("sum"))
	TESTQ(weights, weights)
	JNZ(LabelRef("weighted"))

	Label("plain")
	row := next(mem, addr, ahead, n)
	for i := range acc {
		VADDPS(Mem{Base: row, Disp: i * s.vector}, acc[i], acc[i])
	}
	ADDQ(Imm(8), addr)
	DECQ(left)
	JNZ(LabelRef("plain"))
	JMP(LabelRef("sum"))

	Label("weighted")
	row = next(mem, addr, ahead, n)
	w, x := s.reg(), s.reg()
	VBROADCASTSS(Mem{Base: weights}, w)
	for i := range acc {
		VMULPS(Mem{Base: row, Disp: i * s.vector}, w, x)
		VADDPS(x, acc[i], acc[i])
	}
	ADDQ(Imm(8), addr)
	ADDQ(Imm(4), weights)
	DECQ(left)
	JNZ(LabelRef("weighted"))

	Label("sum")
	TESTQ(factor, factor)
	JZ(LabelRef("store"))
	VBROADCASTSS(Mem{Base: factor}, w)
	for i := range acc {
		VMULPS(w, acc[i], acc[i])
	}

	Label("store")
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: dst, Disp: i * s.vector})
	}
	VZEROUPPER()
	RET()
}

// next loads the address of the row at hand and prefetches the same lines of a later one.
func next(mem, addr, ahead Register, n int) Register {
	row, later := GP64(), GP64()
	MOVQ(Mem{Base: addr, Index: ahead, Scale: 8}, later)
	MOVQ(Mem{Base: addr}, row)
	ADDQ(mem, later)
	ADDQ(mem, row)
	for i := range n {
		PREFETCHT0(Mem{Base: later, Disp: i * line})
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
