package tables

import (
	"math/rand/v2"
	"testing"

	"rankd/internal/hugemem"
	"rankd/internal/testutil"
	"rankd/model"
)

// benchHots is the number of ids a table in DLRM-DCNv2: 214 rows of 128 an example.
var benchHots = []int{3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1}

const benchRows, benchDim, benchBatch = 2000, 128, 16

func benchSet(b *testing.B) (*Set, []Bags) {
	specs := make([]spec, len(benchHots))
	for i := range specs {
		specs[i] = spec{benchRows, benchDim, model.CombinerSum, model.PolicyReject}
	}
	bundle := makeBundle(b, specs)
	seg := mustLoad(b, bundle, Options{Instance: testutil.Instance(b), Dir: shmDir(b), Want: hugemem.Auto})
	s := attach(b, int(seg.FD().Fd()), bundle.Manifest)
	rng := rand.New(rand.NewPCG(1, 1))
	bags := make([]Bags, len(specs))
	for i, hot := range benchHots {
		var ids []int64
		for range benchBatch * hot {
			ids = append(ids, rng.Int64N(benchRows))
		}
		bags[i] = fixed(hot, ids...)
	}
	return s, bags
}

// BenchmarkSweep pools 16 examples a call. The tables are small (27 MB), so the figure is about the code more than about
// the memory; BenchmarkGather is about both.
func BenchmarkSweep(b *testing.B) {
	s, bags := benchSet(b)
	dst := [][]byte{make([]byte, benchBatch*s.strides[0])}
	var p Plan
	b.Run("resolved/"+s.Kernel(), func(b *testing.B) {
		s.Resolve(&p, bags, 0, benchBatch)
		b.ReportAllocs()
		for b.Loop() {
			s.Sweep(&p, nil, dst, 0, benchBatch)
		}
		perExample(b, benchBatch)
	})
	b.Run("whole/"+s.Kernel(), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Validate(bags, benchBatch); err != nil {
				b.Fatal(err)
			}
			s.Resolve(&p, bags, 0, benchBatch)
			s.Sweep(&p, nil, dst, 0, benchBatch)
		}
		perExample(b, benchBatch)
	})
	b.Run("baseline", func(b *testing.B) { // one bag after the other, ids looked up where they are needed
		b.ReportAllocs()
		for b.Loop() {
			naive(s, bags, dst[0], benchBatch)
		}
		perExample(b, benchBatch)
	})
}

// BenchmarkBroadcast pools a request of 1,000 candidates in chunks of 16. The first half of the tables is their user's: looked up once
// for the request, once for each chunk, or, the baseline, for each row.
func BenchmarkBroadcast(b *testing.B) {
	const rows, chunk = 1000, 16
	s, _ := benchSet(b)
	rng := rand.New(rand.NewPCG(1, 2))
	bags, each := make([]Bags, len(benchHots)), make([]Bags, len(benchHots))
	for i, hot := range benchHots {
		user := i < len(benchHots)/2
		var ids []int64
		for range hot {
			ids = append(ids, rng.Int64N(benchRows))
		}
		for k := hot; k < rows*hot; k++ {
			id := rng.Int64N(benchRows)
			if user {
				id = ids[k%hot]
			}
			ids = append(ids, id)
		}
		bags[i], each[i] = fixed(hot, ids...), fixed(hot, ids...)
		bags[i].Broadcast = user
	}
	dst, window := make([]byte, rows*s.strides[0]), make([][]byte, 1)
	var p Plan
	var h Shared
	for _, x := range []struct {
		name  string
		bags  []Bags
		every int // rows after which Pool is called again
	}{{"once a request", bags, rows}, {"once a chunk", bags, chunk}, {"baseline", each, rows}} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for first := 0; first < rows; first += chunk {
					if first%x.every == 0 {
						s.Pool(&p, &h, x.bags)
					}
					n := min(chunk, rows-first)
					s.Resolve(&p, x.bags, first, n)
					window[0] = dst[first*s.strides[0]:]
					s.Sweep(&p, &h, window, 0, n)
				}
			}
			perExample(b, rows)
		})
	}
}

func naive(s *Set, bags []Bags, dst []byte, rows int) {
	for i := range bags {
		t, bag := &s.tables[i], &bags[i]
		for r := range rows {
			out := dst[r*s.strides[0]+t.col.offset:][:4*t.col.dim]
			clear(out)
			lo, hi := bag.span(r)
			for j := lo; j < hi; j++ {
				add(out, s.mem[t.base+uint64(bag.id(j))*t.stride:])
			}
		}
	}
}
