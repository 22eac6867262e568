package deviceowner

import (
	"context"
	"fmt"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/shmring"
)

// Loop forms batches and runs them. All its fields belong to the goroutine in Run, except done.
type Loop struct {
	ring     *shmring.Owner
	geometry shmring.Geometry
	exec     executor.Executor
	policy   policy
	buckets  []int
	depth    int
	spin     time.Duration
	straggle time.Duration
	counters *stats.Block

	firstRow  []time.Time // a slab: when its first row was seen; zero: none yet
	queue     []int       // closed slabs in order of closing
	inflight  int
	began     [maxLaunches]time.Time // of launches in flight; zero: the place is free
	slabOf    [maxLaunches]int
	batches   [maxLaunches]executor.Batch
	done      chan completion // room for every launch, so that a done call never blocks
	rerun     *rerun
	err       error // ends the loop
	checkedAt time.Time
}

const maxLaunches = 16

// completion is what a done call leaves for the loop.
type completion struct {
	place int // index into began
	slab  int
	alone bool
	err   error
}

// Options is what a Loop is made of.
type Options struct {
	Ring     *shmring.Owner
	Geometry shmring.Geometry
	Executor executor.Executor
	Config   Config
	Buckets  []int // compiled, ascending, the last one at least Geometry.Capacity
	Counters *stats.Block
}

// NewLoop returns a loop over a ring whose slabs may hold the work of a predecessor.
func NewLoop(o Options) (*Loop, error) {
	if n := len(o.Buckets); n == 0 || o.Buckets[n-1] != o.Geometry.Capacity {
		return nil, fmt.Errorf("start device owner: buckets %v, want the last one equal to the slab capacity %d", o.Buckets, o.Geometry.Capacity)
	}
	if d := o.Config.PipelineDepth; d < 1 || d > maxLaunches {
		return nil, fmt.Errorf("start device owner: pipeline depth %d, want 1 to %d", d, maxLaunches)
	}
	l := &Loop{
		ring: o.Ring, geometry: o.Geometry, exec: o.Executor, buckets: o.Buckets,
		policy: policy{kind: o.Config.Batching, maxDelay: o.Config.MaxDelay},
		depth:  o.Config.PipelineDepth, spin: o.Config.Spin, straggle: o.Config.Straggler, counters: o.Counters,
		firstRow: make([]time.Time, o.Geometry.Slabs),
		done:     make(chan completion, maxLaunches),
	}
	for i, b := range o.Buckets {
		l.counters.SetBucketRows(i, b)
	}
	for slab := range o.Geometry.Slabs {
		if l.ring.Phase(slab) == shmring.PhaseClosed {
			l.queue = append(l.queue, slab)
			if l.ring.Attempts(slab) > 0 {
				l.counters.Inc(stats.Reruns)
			}
		}
	}
	return l, nil
}

// Run turns until ctx ends or the device is dead; it returns the device's error, or nil.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.ring.Wake)
	defer stop()
	for ctx.Err() == nil && l.err == nil {
		if l.turn() {
			continue
		}
		if l.spin > 0 && l.spinTurn() {
			continue
		}
		l.park()
	}
	for l.inflight > 0 { // the executor still has the memory
		l.collect(<-l.done)
	}
	return l.err
}

// turn does whatever can be done now and reports whether anything was.
func (l *Loop) turn() bool {
	l.ring.Beat()
	progress := l.ring.HandleDeaths()
	l.counters.Add(stats.Graces, uint64(progress))
	progress += l.collectAll()
	progress += l.ring.Recycle()
	progress += l.closeSlabs()
	progress += l.openSlabs()
	progress += l.launchReady()
	progress += l.stepRerun()
	l.watchStragglers()
	return progress > 0
}

// spinTurn turns for a bounded time, which saves the wake-up where a CPU can be spared.
func (l *Loop) spinTurn() bool {
	for began := time.Now(); time.Since(began) < l.spin; {
		if l.turn() {
			return true
		}
	}
	return false
}

func (l *Loop) park() {
	timeout := shmring.MaxPark
	now := time.Now()
	acks := true // without an open slab the next ack matters
	for slab := range l.geometry.Slabs {
		switch l.ring.Phase(slab) {
		case shmring.PhaseOpen:
			acks = false
			if l.policy.timed() && !l.firstRow[slab].IsZero() {
				timeout = min(timeout, max(l.policy.maxDelay-now.Sub(l.firstRow[slab]), 50*time.Microsecond))
			}
		case shmring.PhaseClosed:
			if l.ring.InGrace(slab) {
				timeout = min(timeout, time.Millisecond) // the end of a grace period rings no bell
			}
		}
	}
	woke := false
	timedOut := l.ring.Park(acks, timeout, func() bool { woke = l.turn(); return woke })
	switch {
	case woke:
	case !timedOut:
		l.counters.Inc(stats.WakesBell)
	case timeout < shmring.MaxPark:
		l.counters.Inc(stats.WakesTimer)
	default:
		// A recycle that waited for the timer is no lost wake-up: nobody needed the slab.
		l.ring.Recycle()
		if l.turn() {
			l.counters.Inc(stats.WakesTimerWithWork)
		} else {
			l.counters.Inc(stats.WakesTimer)
		}
	}
}

// closeSlabs closes what the policy says, and finds what frontends have closed.
func (l *Loop) closeSlabs() int {
	n := 0
	now := time.Now()
	for slab := range l.geometry.Slabs {
		switch l.ring.Phase(slab) {
		case shmring.PhaseOpen:
			rows := l.ring.Rows(slab)
			if rows > 0 && l.firstRow[slab].IsZero() {
				l.firstRow[slab] = now
			}
			if l.policy.kind == "off" {
				if rows > 0 {
					l.ring.Close(slab)
				}
			} else if l.policy.close(slabState{
				rows: rows, capacity: l.geometry.Capacity, sinceFirst: now.Sub(l.firstRow[slab]),
				deviceFree: l.inflight+len(l.queue) < l.depth,
			}) {
				l.ring.Close(slab)
			}
		case shmring.PhaseFree:
			l.firstRow[slab] = time.Time{}
		}
		if l.ring.Phase(slab) == shmring.PhaseClosed && !l.queued(slab) && !l.launched(slab) {
			l.queue = append(l.queue, slab)
			n++
		}
	}
	return n
}

func (l *Loop) queued(slab int) bool {
	for _, s := range l.queue {
		if s == slab {
			return true
		}
	}
	return l.rerun != nil && l.rerun.slab == slab
}

func (l *Loop) launched(slab int) bool {
	for place := range l.began {
		if !l.began[place].IsZero() && l.slabOf[place] == slab {
			return true
		}
	}
	return false
}

// openSlabs keeps one slab open, or with batching off all free ones.
func (l *Loop) openSlabs() int {
	open, n := 0, 0
	for slab := range l.geometry.Slabs {
		if l.ring.Phase(slab) == shmring.PhaseOpen {
			open++
		}
	}
	for open == 0 || l.policy.kind == "off" {
		slab, ok := l.ring.Open()
		if !ok {
			break
		}
		l.firstRow[slab] = time.Time{}
		open++
		n++
	}
	return n
}

// watchStragglers looks for frontends that hold a batch up, a few times within the time that they have.
func (l *Loop) watchStragglers() {
	if now := time.Now(); now.Sub(l.checkedAt) > l.straggle/8 {
		l.checkedAt = now
		if l.ring.Stragglers(l.straggle) != 0 {
			l.counters.Inc(stats.StragglerRequests)
		}
	}
	faults.Hit("owner.turn")
}
