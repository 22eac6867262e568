package shmring

import "testing"

// nobody is a Completion that drops what it is given.
type nobody struct{}

func (nobody) Complete(int, []byte, Status) {}

// BenchmarkRoundTrip takes one row through the ring: reserved, written, committed, its slab closed, launched, completed, the score
// delivered, the slab open again. All roles are in one goroutine: it is the cost of the words, without any wake-up. The baseline is
// what a program in one process would do: a channel to the goroutine that owns the device, and one back.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("ring", func(b *testing.B) {
		v := newTrio(b, Geometry{Slabs: 6, Capacity: 64, ChunkRows: 16, Strides: []int{64}, ScoreBytes: 4, Frontends: 1, Writers: 2})
		slab, ok := v.o.Open()
		if !ok {
			b.Fatal("no slab to open")
		}
		b.ReportAllocs()
		for b.Loop() {
			res, ok := v.f[0].Reserve(1, false, nobody{}, 0)
			if !ok {
				b.Fatal("no room")
			}
			write(&res, 7)
			v.f[0].Commit(&res)
			v.o.Close(slab)
			v.o.Begin(slab)
			score(v.o, slab)
			v.o.Complete(slab, StatusOK)
			if v.f[0].Poll() != 1 {
				b.Fatal("no score")
			}
			v.o.Recycle()
			if slab, ok = v.o.Open(); !ok {
				b.Fatal("no slab to open")
			}
		}
	})
	b.Run("channels", func(b *testing.B) {
		rows, scores := make(chan uint32, 64), make(chan uint32, 64)
		go func() {
			defer close(scores)
			for row := range rows {
				scores <- row + 1000
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			rows <- 7
			<-scores
		}
		close(rows)
		<-scores
	})
}
