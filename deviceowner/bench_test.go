package deviceowner

import (
	"testing"

	"rankd/deviceowner/executor"
)

// BenchmarkIdleTurn is a turn that finds nothing to do, with the slabs of the usual geometry and of batching off.
func BenchmarkIdleTurn(b *testing.B) {
	for _, batching := range []string{"continuous", "off"} {
		b.Run(batching, func(b *testing.B) {
			r := newRig(b, setup{batching: batching, depth: 2, realTime: true})
			b.ReportAllocs()
			for b.Loop() {
				r.loop.turn()
			}
		})
	}
}

// BenchmarkBatch is everything that the owner does for a batch on a device that takes no time, the frontend's part
// included; "bare" is the same frontend and executor without a loop's decisions: the ring's calls alone.
func BenchmarkBatch(b *testing.B) {
	b.Run("loop", func(b *testing.B) {
		r := newRig(b, setup{batching: "continuous", depth: 2, realTime: true})
		r.loop.exec = &instant{depth: 2}
		c := newCall(b, 0, 1<<30)
		b.ReportAllocs()
		for b.Loop() {
			r.send(c)
			for r.loop.turn() {
			}
			r.fronts[0].Poll()
		}
	})
	b.Run("bare", func(b *testing.B) {
		r := newRig(b, setup{batching: "continuous", depth: 2, realTime: true})
		x, ring := &instant{depth: 2}, r.loop.ring
		c := newCall(b, 0, 1<<30)
		batch := executor.Batch{Bucket: 1, Rows: 1}
		done := func(error) {}
		b.ReportAllocs()
		for slab := 0; b.Loop(); {
			r.send(c)
			ring.Close(slab)
			ring.Begin(slab)
			batch.Arrays = append(batch.Arrays[:0], ring.Array(slab, 0, 0, 1))
			batch.Scores = ring.Scores(slab, 0, 1)
			if err := x.Launch(&batch, done); err != nil {
				b.Fatal(err)
			}
			ring.Complete(slab, 0)
			r.fronts[0].Poll()
			ring.Recycle()
			slab, _ = ring.Open()
		}
	})
}

// send commits one row of a call.
func (r *rig) send(c *call) {
	v, ok := r.fronts[0].Reserve(1, false, c, 0)
	if !ok {
		r.t.Fatal("no room")
	}
	writeRows(&v, 0)
	r.fronts[0].Commit(&v)
}
