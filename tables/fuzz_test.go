package tables

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"rankd/model"
)

// canary marks everything in a segment that is not a row of a table.
const canary = 0x7fc0dead // a NaN with a payload: any sum it enters shows

// guarded is a set in memory of its own: three tables with every policy, canaries before, between and after them.
func guarded() *Set {
	const rows, dim, stride = 5, 3, 64
	s := &Set{kernel: bestKernel(), strides: []int{256}, zero: 64}
	s.mem = make([]byte, 4096)
	for i := 0; i < len(s.mem); i += 4 {
		le.PutUint32(s.mem[i:], canary)
	}
	clear(s.mem[s.zero : s.zero+4*dim])
	all := []policy{reject, clamp, zeroRow, hashMod}
	for i, p := range all {
		base := uint64(256 + i*640)
		for r := range rows {
			for k := range dim {
				le.PutUint32(s.mem[base+uint64(r*stride+4*k):], math.Float32bits(value(i, int64(r), k)))
			}
		}
		s.tables = append(s.tables, table{
			name: string(model.PolicyReject), base: base, rows: rows, stride: stride, policy: p, combiner: combiner(i % 3),
			col: column{array: 0, offset: 64 * i, dim: dim},
		})
	}
	return s
}

// FuzzLookup feeds any bytes as ids, offsets and weights: no panic, no canary in the result, nothing written beside the slots.
func FuzzLookup(f *testing.F) {
	f.Add(ids64(1, 2, 3, 4), []byte{0, 1, 2, 4}, []byte{}, uint8(8), uint8(3), int64(0), int64(1), int64(1), uint8(0))
	f.Add(ids32(-1, 5, 1<<30), []byte{0, 3}, floats(1, 2, 3), uint8(4), uint8(1), int64(1), int64(2), int64(3), uint8(1))
	f.Add(ids64(-1), []byte{9, 0, 200}, []byte{1}, uint8(0), uint8(2), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), uint8(15))
	f.Add(ids64(1, 2, 3, 4), []byte{}, []byte{}, uint8(8), uint8(3), int64(0), int64(1), int64(1), uint8(8))
	s := guarded()
	before := bytes.Clone(s.mem)
	var p Plan
	var h Shared
	f.Fuzz(func(t *testing.T, values, offsets, weights []byte, width, rowCount uint8, first, hot, step int64, flags uint8) {
		rows := int(rowCount % 8)
		b := Bags{Values: values, Width: int(width), First: int(first), Hot: int(hot), Step: int(step)}
		if flags&1 != 0 {
			for _, o := range offsets {
				b.Offsets = append(b.Offsets, int32(int8(o)))
			}
			if len(offsets) >= 4 && flags&16 != 0 {
				b.Offsets[0] = int32(binary.LittleEndian.Uint32(offsets))
			}
		}
		if flags&2 != 0 {
			b.Weights = weights
			for i := 0; i+4 <= len(weights); i += 4 {
				if x := float(weights, i/4); x != x || math.IsInf(float64(x), 0) {
					return // a NaN of the request's own is its own affair
				}
			}
		}
		b.Broadcast = flags&4 != 0
		bags := []Bags{b, b, b, b}
		if flags&8 != 0 {
			bags[1] = Bags{Values: ids64(3), Width: 8, Hot: 1, Step: 1, Broadcast: true}
		}
		valid := s.Validate(bags, rows) == nil
		s.Pool(&p, &h, bags)
		s.Resolve(&p, bags, 0, rows)
		for _, list := range []*bagList{&p.each, &p.once} {
			checkAddresses(t, s, list)
		}
		dst := bytes.Repeat([]byte{0xCC}, 32+rows*256+32)
		s.Sweep(&p, &h, [][]byte{dst[32 : 32+rows*256 : 32+rows*256]}, 0, rows)
		for i, x := range dst {
			in := i - 32
			slot := in >= 0 && in < rows*256 && in%64 < 12
			if !slot && x != 0xCC {
				t.Fatalf("byte %d beside the slots was written", in)
			}
			if slot && in%4 == 0 && valid && b.Weights == nil && math.IsNaN(float64(float(dst[i:], 0))) {
				t.Fatalf("element at byte %d: a canary was read", in)
			}
		}
		if !bytes.Equal(s.mem, before) {
			t.Fatal("the tables were written to")
		}
	})
}

// checkAddresses verifies I4 for every address of a list.
func checkAddresses(t *testing.T, s *Set, l *bagList) {
	t.Helper()
	at := 0
	for bag, n := range l.lens {
		tb := &s.tables[l.tables[bag%len(l.tables)]]
		for range n {
			a := l.addrs[at]
			if a != s.zero && (a < tb.base || (a-tb.base)%tb.stride != 0 || (a-tb.base)/tb.stride >= tb.rows) {
				t.Fatalf("I4: address %d is not a row of its table at %d", a, tb.base)
			}
			at++
		}
	}
	if n := len(l.addrs) - at; len(l.lens) > 0 && n != prefetchPad {
		t.Fatalf("addresses behind the last bag: got %d, want %d", n, prefetchPad)
	}
	for _, a := range l.addrs[at:] {
		if a != s.zero {
			t.Fatalf("address %d behind the last bag, want the zero row", a)
		}
	}
}
