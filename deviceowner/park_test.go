package deviceowner

import (
	"math/rand/v2"
	"testing"
	"time"

	"rankd/internal/batching"
	"rankd/internal/stats"
	"rankd/shmring"
)

// sleeper stands for a sleep that ends by time: it does something meanwhile and says that the time is over.
type sleeper struct {
	meanwhile func()
	unrung    bool // whatever is done meanwhile finds the owner awake, so that it rings nobody
}

func (s *sleeper) Wake(*shmring.Word) {}

func (s *sleeper) Wait(word *shmring.Word, value uint32, _ time.Duration) bool {
	if s.unrung {
		word.Store(0)
	}
	s.meanwhile()
	if s.unrung {
		word.Store(value)
	}
	return true
}

// TestLostWakeUpsAreToldFromOthers lets something happen during a sleep that ends by time: with its author ringing at the
// last moment, or not ringing at all.
func TestLostWakeUpsAreToldFromOthers(t *testing.T) {
	kinds := []struct {
		name    string
		rings   bool // its author has to ring
		prepare func(r *rig) (meanwhile func())
	}{
		{name: "nothing", prepare: func(*rig) func() { return func() {} }},
		{name: "commit", rings: true, prepare: func(r *rig) func() {
			return func() { r.request(0, 10, 1) }
		}},
		{name: "reservation without commit", prepare: func(r *rig) func() { return func() { r.reserve(0, 10, 1) } }},
		{name: "late commit of a closed slab", rings: true, prepare: func(r *rig) func() {
			c := r.reserve(0, 10, 1)
			r.settle()
			return func() { r.fronts[0].Commit(&c.res) }
		}},
		{name: "end of a launch", rings: true, prepare: func(r *rig) func() {
			r.request(0, 10, 1)
			r.settle()
			return func() { r.exec.flight(0).end() }
		}},
		{name: "death", rings: true, prepare: func(r *rig) func() {
			return func() { r.super.MarkDead(1, 1) }
		}},
		{name: "acknowledgement while a slab is open", prepare: func(r *rig) func() {
			r.request(0, 10, 1)
			r.settle()
			r.finish(0)
			return r.deliver
		}},
		{name: "acknowledgement while none is open", rings: true, prepare: func(r *rig) func() {
			for r.loop.open > 0 {
				r.request(0, 10, 4)
				r.request(0, 20, 4)
				r.settle()
				r.finishAll()
			}
			return r.deliver
		}},
	}
	for _, k := range kinds {
		for _, rung := range []bool{true, false} {
			name := k.name + ", not rung"
			want := [3]uint64{0, 1, 0} // bell, timer, timer with work
			if rung {
				name = k.name + ", rung at the last moment"
			}
			switch {
			case rung && k.rings:
				want = [3]uint64{1, 0, 0}
			case k.rings:
				want = [3]uint64{0, 0, 1}
			}
			t.Run(name, func(t *testing.T) {
				r := newRig(t, setup{batching: "continuous", depth: 1, frontends: 2})
				s := &sleeper{meanwhile: k.prepare(r), unrung: !rung}
				r.region.Sleep = s
				r.settle()
				r.loop.park()
				got := [3]uint64{r.counters.Load(stats.WakesBell), r.counters.Load(stats.WakesTimer), r.counters.Load(stats.WakesTimerWithWork)}
				if got != want {
					t.Errorf("wakes by bell, timer, timer with work: %v, want %v", got, want)
				}
			})
		}
	}
}

// TestI8LoneRequestsAreNeverLeftToTheTimer sends requests one at a time with random gaps, some of them around the longest
// sleep. Every wait of the client is for its bell alone, so a lost wake-up on either side shows.
func TestI8LoneRequestsAreNeverLeftToTheTimer(t *testing.T) {
	for _, kind := range batching.All() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, setup{batching: string(kind), maxDelay: 200 * time.Microsecond, depth: 2, realTime: true})
			launchGap := make(chan time.Duration, 64)
			r.exec.auto = func(f *flight) {
				if d := <-launchGap; d > 0 {
					time.AfterFunc(d, f.end)
				} else {
					f.end()
				}
			}
			v := r.run(t.Context())
			gap := time.NewTimer(0)
			<-gap.C
			for i := range uint32(400) {
				launchGap <- time.Duration(max(rng.IntN(300)-100, 0)) * time.Microsecond
				c := r.request(0, i, 1)
				for answered := false; !answered; {
					r.deliver()
					select {
					case <-c.done:
						answered = true
					case <-r.bells[0]:
					case <-time.After(10 * time.Second):
						t.Fatalf("request %d is not answered", i)
					}
				}
				d := time.Duration(rng.IntN(1000)) * time.Microsecond
				if i%40 == 0 {
					d = shmring.MaxPark + time.Duration(rng.IntN(4000)-2000)*time.Microsecond
				}
				gap.Reset(d)
				<-gap.C
			}
			r.stop(v)
			r.wantCount(stats.WakesTimerWithWork, "wakes by the timer with work", 0)
			if n := r.counters.Load(stats.WakesBell); n < 200 {
				t.Errorf("%d wakes by the bell for 400 requests: the loop did not sleep between them", n)
			}
			r.loop.ring.Recycle()
			r.wantAtRest()
		})
	}
}
