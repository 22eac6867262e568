package tables

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// demoRows are the rows of the tables of DLRM-DCNv2 on Criteo's terabyte set, at most 850,000 each: 6,216,632 in all, 3.18 GB.
var demoRows = []uint64{
	850000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 850000, 850000, 405282, 10, 2209, 11938, 155, 4, 976, 14, 850000, 850000, 850000,
	590152, 12973, 108, 36,
}

// BenchmarkGather pools examples of DLRM-DCNv2 from tables that no cache holds, beside what the memory gives: the same rows read
// and added into a single bag, whose additions wait for nothing. It needs 3.2 GB of memory that may be huge pages, and RANKD_BIG=1.
func BenchmarkGather(b *testing.B) {
	if os.Getenv("RANKD_BIG") == "" {
		b.Skip("needs 3.2 GB; set RANKD_BIG=1")
	}
	s := bigSet(b)
	rng := rand.New(rand.NewPCG(1, 1))
	const examples = 4096 // requests differ, so that no row is found in a cache because it was just used
	bags := make([]Bags, len(benchHots))
	for i, hot := range benchHots {
		ids := make([]int64, examples*hot)
		for j := range ids {
			ids[j] = rng.Int64N(int64(s.tables[i].rows))
		}
		bags[i] = fixed(hot, ids...)
	}
	var p Plan
	s.Resolve(&p, bags, 0, examples)
	for _, k := range kernels() {
		for _, ahead := range []int{0, 4, 8, 12, 16, 24, 32} {
			if k.ahead == 0 && ahead > 0 {
				continue
			}
			for _, batch := range []int{1, 16, 128} {
				dst := [][]byte{make([]byte, batch*s.strides[0])}
				b.Run(fmt.Sprintf("%s/ahead=%d/batch=%d", k.name, ahead, batch), func(b *testing.B) {
					s.kernel = k
					s.kernel.ahead = ahead
					at := 0
					for b.Loop() {
						if at+batch > examples {
							at = 0
						}
						s.Sweep(&p, dst, at, batch)
						at += batch
					}
					perExample(b, batch)
				})
			}
			if k.ahead > 0 {
				b.Run(fmt.Sprintf("%s/ahead=%d/one bag", k.name, ahead), func(b *testing.B) { ceiling(b, s, k, &p, ahead) })
			}
		}
	}
}

func perExample(b *testing.B, batch int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch)/1000, "µs/example")
}

// ceiling reads the rows of 16 examples a call into one bag.
func ceiling(b *testing.B, s *Set, k kernel, p *Plan, ahead int) {
	const batch = 16
	per := len(p.each.addrs) / 4096
	a := sweepArgs{mem: s.mem, lens: []uint32{uint32(batch * per)}, columns: []column{{dim: 128}}, rows: 1, dst: [][]byte{make([]byte, 512)}, strides: []int{512}}
	k.ahead = ahead
	at := 0
	for b.Loop() {
		if (at+batch)*per+prefetchPad > len(p.each.addrs) {
			at = 0
		}
		a.addrs = p.each.addrs[at*per:]
		k.sweep(&a)
		at += batch
	}
	perExample(b, batch)
}

// bigSet is a Set of the tables of DLRM-DCNv2 in anonymous memory.
func bigSet(b *testing.B) *Set {
	size := uint64(line)
	for _, rows := range demoRows {
		size += rows * 512
	}
	mem, err := unix.Mmap(-1, 0, int(size+2<<20), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Madvise(mem, unix.MADV_HUGEPAGE); err != nil {
		b.Log("no huge pages: ", err)
	}
	s := &Set{mem: mem, kernel: bestKernel(), strides: []int{512 * len(demoRows)}}
	at := uint64(line)
	for i, rows := range demoRows {
		s.tables = append(s.tables, table{base: at, rows: rows, stride: 512, col: column{offset: 512 * i, dim: 128}})
		at += rows * 512
	}
	for i := 0; i < len(mem); i += 64 { // one element a line is enough to have the pages
		mem[i] = byte(i >> 6)
	}
	return s
}
