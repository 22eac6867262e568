package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Rounding to the nearest of the 16-bit values, ties to even, is adding half of the last place that stays, less one where that
// place is even, and cutting. A NaN could become an infinity or a zero so: it is cut, and a bit is set that keeps it a NaN.
const (
	halfLess = 0x7fff
	quiet    = 1 << 22 // bit 6 of the upper half
)

// narrow writes the function that rounds lines of sums to bfloat16.
func narrow(s isa) {
	name := "narrow" + s.name
	TEXT(name, NOSPLIT, "func(dst, sums *byte, lines int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s stores %d elements a line as bfloat16; see narrowFunc.", name, perLine))
	dst, sums, left := Load(Param("dst"), GP64()), Load(Param("sums"), GP64()), Load(Param("lines"), GP64())
	one, half, bit := everywhere(s, 1), everywhere(s, halfLess), everywhere(s, quiet)
	Label("next")
	var upper []VecVirtual
	for at := 0; at < line; at += s.vector {
		x, y, nan := s.reg(), s.reg(), s.reg()
		VMOVUPS(Mem{Base: sums, Disp: at}, x)
		VPSRLD(Imm(16), x, y)
		if s.vector == 64 {
			VPANDD(one, y, y)
			VPORD(bit, x, nan)
		} else {
			VPAND(one, y, y)
			VPOR(bit, x, nan)
		}
		VPADDD(half, y, y)
		VPADDD(x, y, y)
		if s.vector == 64 {
			is := K()
			VCMPPS(Imm(3), x, x, is) // unordered: NaN
			VMOVDQA32(nan, is, y)
		} else {
			is := s.reg()
			VCMPPS(Imm(3), x, x, is)
			VBLENDVPS(is, nan, y, y)
		}
		VPSRLD(Imm(16), y, y)
		upper = append(upper, y)
	}
	if s.vector == 64 {
		VPMOVDW(upper[0], Mem{Base: dst})
	} else {
		VPACKUSDW(upper[1], upper[0], upper[0]) // in each half of the register apart
		VPERMQ(Imm(0xD8), upper[0], upper[0])
		VMOVDQU(upper[0], Mem{Base: dst})
	}
	ADDQ(Imm(line), sums)
	ADDQ(Imm(line/2), dst)
	DECQ(left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// everywhere is a number in every element of a register.
func everywhere(s isa, n uint32) VecVirtual {
	g, x, r := GP32(), XMM(), s.reg()
	MOVL(U32(n), g)
	VMOVD(g, x)
	VPBROADCASTD(x, r)
	return r
}
