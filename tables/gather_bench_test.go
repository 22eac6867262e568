package tables

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
)

// demoRows are the rows of the tables of DLRM-DCNv2 on Criteo's terabyte set, at most 850,000 each: 6,216,632 in all, in float32
// 3.18 GB.
var demoRows = []uint64{
	850000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 850000, 850000, 405282, 10, 2209, 11938, 155, 4, 976, 14, 850000, 850000, 850000,
	590152, 12973, 108, 36,
}

// gatherExamples differ from each other, so that no row is found in a cache because it was just used.
const gatherExamples = 4096

// gather is what the benchmarks of lookups in large tables have in common.
type gather struct {
	set  *Set
	bags []Bags
	plan Plan
}

// newGather makes the tables of DLRM-DCNv2 with rows of one form. It needs 3.2 GB for float32, and RANKD_BIG=1;
// RANKD_BIG=small caps tables at 1000 rows.
func newGather(b *testing.B, f form) *gather {
	big := os.Getenv("RANKD_BIG")
	if big == "" {
		b.Skip("needs 3.2 GB; set RANKD_BIG=1")
	}
	most := uint64(850000)
	if big == "small" {
		most = 1000
	}
	g := &gather{set: bigSet(b, f, most)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i, hot := range benchHots {
		ids := make([]int32, gatherExamples*hot)
		for j := range ids {
			ids[j] = int32(rng.Int64N(int64(g.set.tables[i].rows)))
		}
		g.bags = append(g.bags, Bags{Values: ids32(ids...), Width: 4, Hot: hot, Step: hot})
	}
	g.set.Resolve(&g.plan, g.bags, 0, gatherExamples)
	return g
}

// sweeps pools batch after batch.
func (g *gather) sweeps(b *testing.B, k kernel, batch int) {
	g.set.kernel = k
	dst := [][]byte{make([]byte, batch*g.set.strides[0])}
	at := 0
	for b.Loop() {
		if at+batch > gatherExamples {
			at = 0
		}
		g.set.Sweep(&g.plan, nil, dst, at, batch)
		at += batch
	}
	perExample(b, batch)
}

// whole is what a request costs besides decoding: ids validated and resolved, in the chunks of a frontend, and pooled.
func (g *gather) whole(b *testing.B, k kernel, batch int) {
	const chunk = 32
	g.set.kernel = k
	dst := [][]byte{make([]byte, batch*g.set.strides[0])}
	bags := make([]Bags, len(g.bags))
	var p Plan
	at := 0
	for b.Loop() {
		if at+batch > gatherExamples {
			at = 0
		}
		for i, hot := range benchHots {
			bags[i] = Bags{Values: g.bags[i].Values[4*at*hot:][:4*batch*hot], Width: 4, Hot: hot, Step: hot}
		}
		if err := g.set.Validate(bags, batch); err != nil {
			b.Fatal(err)
		}
		for first := 0; first < batch; first += chunk {
			n := min(chunk, batch-first)
			g.set.Resolve(&p, bags, first, n)
			g.set.Sweep(&p, nil, [][]byte{dst[0][first*g.set.strides[0]:]}, 0, n)
		}
		at += batch
	}
	perExample(b, batch)
}

// ceiling reads the rows of 16 examples a call into one bag: additions that wait for nothing but the memory.
func (g *gather) ceiling(b *testing.B, k kernel) {
	const batch = 16
	per := len(g.plan.each.addrs) / gatherExamples
	col := g.set.tables[0].col
	a := sweepArgs{
		mem: g.set.mem, lens: []uint32{uint32(batch * per)}, columns: []column{{dim: col.dim, form: col.form}}, rows: 1,
		dst: [][]byte{make([]byte, 4*col.dim)}, strides: []int{4 * col.dim},
	}
	at := 0
	for b.Loop() {
		if at+batch > gatherExamples {
			at = 0
		}
		a.addrs = g.plan.each.addrs[at*per:]
		k.sweep(&a)
		at += batch
	}
	perExample(b, batch)
}

func perExample(b *testing.B, batch int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch)/1000, "µs/example")
}

// BenchmarkGather pools examples of DLRM-DCNv2 from tables that no cache holds, with every kernel and row type.
func BenchmarkGather(b *testing.B) {
	for f := range forms {
		b.Run(rowDTypes[f].String(), func(b *testing.B) {
			g := newGather(b, f)
			for _, k := range kernels() {
				for _, batch := range []int{1, 16, 128} {
					if k.tiles == nil && batch != 16 {
						continue // slow
					}
					b.Run(fmt.Sprintf("%s/batch=%d", k.name, batch), func(b *testing.B) { g.sweeps(b, k, batch) })
				}
				if k.name != kernels()[0].name {
					continue
				}
				b.Run(k.name+"/ceiling", func(b *testing.B) { g.ceiling(b, k) })
				for _, batch := range []int{1, 16, 128} {
					b.Run(fmt.Sprintf("%s/whole/batch=%d", k.name, batch), func(b *testing.B) { g.whole(b, k, batch) })
				}
			}
		})
	}
}

// BenchmarkAhead tries how far ahead rows should be prefetched.
func BenchmarkAhead(b *testing.B) {
	for _, f := range []form{float32s, int8s} {
		b.Run(rowDTypes[f].String(), func(b *testing.B) {
			g := newGather(b, f)
			for _, k := range kernels() {
				for _, ahead := range []int{0, 4, 8, 12, 16, 24, 32} {
					if k.ahead = ahead; k.tiles != nil {
						b.Run(fmt.Sprintf("%s/ahead=%d/batch=16", k.name, ahead), func(b *testing.B) { g.sweeps(b, k, 16) })
						b.Run(fmt.Sprintf("%s/ahead=%d/ceiling", k.name, ahead), func(b *testing.B) { g.ceiling(b, k) })
					}
				}
			}
		})
	}
}

// bigSet is a Set of the tables of DLRM-DCNv2 in anonymous memory.
func bigSet(b *testing.B, f form, most uint64) *Set {
	const dim = 128
	stride := uint64(strideOf(rowDTypes[f], dim))
	s := &Set{kernel: bestKernel(), strides: []int{4 * dim * len(demoRows)}}
	size := uint64(line)
	for i, rows := range demoRows {
		rows = min(rows, most)
		s.tables = append(s.tables, table{base: size, rows: rows, stride: stride, col: column{offset: 4 * dim * i, dim: dim, form: f}})
		size += uint64(align(int64(rows * stride)))
	}
	mem, err := unix.Mmap(-1, 0, int(size+2<<20), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Madvise(mem, unix.MADV_HUGEPAGE); err != nil {
		b.Log("no huge pages: ", err)
	}
	s.mem = mem
	for i := range s.tables {
		t := &s.tables[i]
		for r := range t.rows {
			touch(mem[t.base+r*stride:][:stride], f, dim)
		}
	}
	return s
}

// touch writes a number into each line of a row, so that its pages are there. No denormal numbers: they take longer.
func touch(row []byte, f form, dim int) {
	switch f {
	case int8s:
		le.PutUint32(row[dim:], math.Float32bits(1.0/256))
		le.PutUint32(row[dim+4:], math.Float32bits(-0.5))
	case float32s:
		for i := 0; i < len(row); i += line {
			le.PutUint32(row[i:], math.Float32bits(1))
		}
	default:
		for i := 0; i < len(row); i += line {
			le.PutUint16(row[i:], dtype.Float32ToFloat16(1))
		}
	}
}
