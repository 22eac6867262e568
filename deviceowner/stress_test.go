package deviceowner

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"rankd/internal/stats"
)

// TestManyFrontendsGetTheirOwnScores runs everything at once on the Go heap, where the race detector sees every byte: the
// loop, frontends with several goroutines each, and launches that end in any order, some of them with an error that passes.
func TestManyFrontendsGetTheirOwnScores(t *testing.T) {
	for _, s := range []setup{
		{batching: "continuous", depth: 2},
		{batching: "linger", maxDelay: 200 * time.Microsecond, depth: 3},
		{batching: "fused", maxDelay: 200 * time.Microsecond, depth: 1},
		{batching: "off", depth: 2},
	} {
		t.Run(s.batching, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			s.frontends, s.realTime = 3, true
			r := newRig(t, s)
			r.loop.spin = 20 * time.Microsecond // also where this machine has too few processors for it
			endRandomly(r.exec, seed)
			v := r.run(t.Context())
			const writers, calls = 3, 60
			var wg sync.WaitGroup
			rows := make([]int, len(r.fronts)*writers)
			for i := range r.fronts {
				stop := make(chan struct{})
				var poller, callers sync.WaitGroup
				poller.Go(func() { r.poll(i, stop) })
				for w := range writers {
					k := i*writers + w
					callers.Go(func() { rows[k] = r.stress(i, rand.New(rand.NewPCG(seed, uint64(k))), uint32(k)<<24, calls) })
				}
				wg.Go(func() {
					callers.Wait()
					close(stop)
					r.bells.Ring(i)
					poller.Wait()
				})
			}
			wg.Wait()
			r.stop(v)
			total := 0
			for _, n := range rows {
				total += n
			}
			r.verifyCounters(total)
		})
	}
}

// endRandomly ends launches from goroutines of their own after a random time. One whole batch in 16 fails.
func endRandomly(f *fake, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99)) // Launch is called from one goroutine
	f.auto = func(v *flight) {
		d := time.Duration(rng.IntN(200)) * time.Microsecond
		fails := len(v.rows) > 4 && rng.IntN(16) == 0 // more rows than a reservation has with batching on
		time.AfterFunc(d, func() {
			if fails {
				v.endWith(errDevice)
			} else {
				v.end()
			}
		})
	}
}

// poll takes scores for frontend i until stop is closed.
func (r *rig) poll(i int, stop <-chan struct{}) {
	for {
		r.fronts[i].Poll()
		select {
		case <-stop:
			return
		case <-r.bells[i]:
		}
	}
}

// stress sends calls one after the other, in chunks, and returns the rows that it has sent.
func (r *rig) stress(i int, rng *rand.Rand, base uint32, calls int) (rows int) {
	f, whole := r.fronts[i], r.cfg.Batching == "off"
	for k := range calls {
		n := 1 + rng.IntN(12)
		if whole {
			n = min(n, 4)
		}
		c := newCall(r.t, base+uint32(k)<<8, n)
		for row := 0; row < n; {
			v, ok := f.Reserve(min(4, n-row), whole, c, row)
			if !ok {
				f.AnnounceSpace()
				if v, ok = f.Reserve(min(4, n-row), whole, c, row); !ok {
					<-time.After(50 * time.Microsecond) // the bell is the poller's
					continue
				}
			}
			writeRows(&v, c.first+uint32(row))
			row += v.N
			f.Commit(&v)
		}
		select {
		case <-c.done:
		case <-time.After(20 * time.Second):
			r.t.Errorf("call %d is not answered", c.first)
			return rows
		}
		rows += n
	}
	return rows
}

// verifyCounters compares what the loop has counted with the rows that were sent.
func (r *rig) verifyCounters(rows int) {
	r.t.Helper()
	r.loop.ring.Recycle()
	r.wantAtRest()
	var launched, executed uint64
	for _, rows := range r.exec.all {
		launched++
		executed += uint64(len(rows))
	}
	r.wantCount(stats.Batches, "batches", launched)
	r.wantCount(stats.BatchRows, "rows", executed)
	if executed < uint64(rows) {
		r.t.Errorf("%d rows executed, want at least the %d that were sent", executed, rows)
	}
	r.wantCount(stats.WakesTimerWithWork, "wakes by the timer with work", 0)
	s := r.page.Read()
	device, wait, size := s.Stage(stats.StageDevice), s.Stage(stats.StageWait), s.Stage(stats.BatchSize)
	if device.Count != launched || size.Count != launched || size.Sum != executed {
		r.t.Errorf("histograms: %d device times, %d sizes with a sum of %d, want %d and %d rows", device.Count, size.Count, size.Sum, launched, executed)
	}
	// A rerun is not waited for: its rows were on the device before.
	if failed := r.counters.Load(stats.DeviceErrors); wait.Count == 0 || wait.Count > launched || failed == 0 && wait.Count != launched {
		r.t.Errorf("histograms: %d waits for %d launches", wait.Count, launched)
	}
	if r.exec.most > r.loop.depth {
		r.t.Errorf("I1: %d launches in flight at depth %d", r.exec.most, r.loop.depth)
	}
}
