package deviceowner

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/batching"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/shmring"
)

// Loop forms batches and runs them. All its fields belong to the goroutine in Run, except done and stopped.
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
	log      *slog.Logger
	now      func() time.Time

	clock    time.Time // when the present turn began
	slabs    []slab
	open     int   // slabs that are open
	oldest   int   // where the search for closed slabs begins, see closeSlabs
	queue    []int // slabs that wait for a launch, in the order of their closing
	places   []launch
	inflight int             // places in use
	done     chan completion // room for every place, so that a done call never blocks
	rerun    *rerun
	rerunHad bool // the last launch was the rerun's, so the queue is next
	parked   parked
	keeper   keeper

	stopped  atomic.Bool // the context of Run has ended
	draining bool
	drainBy  time.Time
	err      error // the device is dead
}

// slab is what the loop remembers of a slab; the rest is in the region.
type slab struct {
	firstRow time.Time // when the loop saw the first row of this life; zero: not yet, or a predecessor did
	closed   time.Time // when the loop saw that it was closed
	taken    bool      // it was put into the queue in this life
}

// Options is what a Loop is made of.
type Options struct {
	Ring     *shmring.Owner
	Geometry shmring.Geometry
	Executor executor.Executor
	Config   Config
	Buckets  []int // compiled, ascending, the last one equal to Geometry.Capacity
	Counters *stats.Block
	Log      *slog.Logger // nil discards
}

// NewLoop returns a loop over a ring whose slabs may hold the work of a predecessor.
func NewLoop(o Options) (*Loop, error) {
	if n := len(o.Buckets); n == 0 || n > stats.MaxBuckets || o.Buckets[n-1] != o.Geometry.Capacity {
		return nil, fmt.Errorf("start device owner: buckets %v, want at most %d, the last one equal to the slab capacity %d",
			o.Buckets, stats.MaxBuckets, o.Geometry.Capacity)
	}
	if k := batching.Kind(o.Config.Batching); !k.Known() {
		return nil, fmt.Errorf("start device owner: close policy %q, want one of %v", k, batching.All())
	}
	if d := o.Config.PipelineDepth; d < 1 {
		return nil, fmt.Errorf("start device owner: pipeline depth %d, want at least 1", d)
	}
	l := &Loop{
		ring: o.Ring, geometry: o.Geometry, exec: o.Executor, buckets: o.Buckets,
		policy:   policy{kind: batching.Kind(o.Config.Batching), maxDelay: o.Config.MaxDelay},
		depth:    min(o.Config.PipelineDepth, o.Executor.Depth()),
		spin:     spinTime(o.Config.Spin, runtime.NumCPU(), runtime.GOMAXPROCS(0), o.Geometry.Frontends),
		counters: o.Counters, straggle: o.Config.Straggler, log: o.Log, now: time.Now,
		slabs: make([]slab, o.Geometry.Slabs),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.done = make(chan completion, l.depth)
	l.places = make([]launch, l.depth)
	for i := range l.places {
		l.places[i].done = func(err error) {
			l.done <- completion{place: i, at: l.now(), err: err}
			l.ring.Wake()
		}
	}
	l.parked.recheck = l.recheck
	for i, b := range o.Buckets {
		l.counters.SetBucketRows(i, b)
	}
	l.takeOver()
	return l, nil
}

// takeOver looks at what a predecessor has left. Slabs are opened in rotation, so the one after the last open one was
// closed first.
func (l *Loop) takeOver() {
	for slab := range l.slabs {
		switch l.ring.Phase(slab) {
		case shmring.PhaseOpen:
			l.oldest = (slab + 1) % len(l.slabs)
		case shmring.PhaseClosed:
			if l.ring.Attempts(slab) > 0 {
				l.counters.Inc(stats.Reruns)
			}
		}
	}
}

// Run turns until ctx ends or the device is dead; it returns the device's error, or nil. What it leaves undone stays in the
// region for a successor.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.stopped.Store(true)
		l.ring.Wake()
	})
	defer stop()
	for !l.ended() {
		if !l.turn() && !l.spinTurn() {
			l.park()
		}
	}
	return l.err
}

// Busy reports whether the executor still has memory of the region after Run: launches on a dead device that did not end.
func (l *Loop) Busy() bool { return l.inflight > 0 }

// turn does whatever can be done now and reports whether anything was.
func (l *Loop) turn() bool {
	l.clock = l.now()
	l.ring.Beat()
	progress := l.handleDeaths()
	progress += l.collectAll()
	progress += l.ring.Recycle()
	progress += l.closeSlabs()
	progress += l.openSlabs()
	progress += l.fillDevice()
	l.keep()
	faults.Hit("owner.turn")
	return progress > 0
}

// spinTurn turns for a bounded time, which saves the wake-up where a CPU can be spared.
func (l *Loop) spinTurn() bool {
	if l.spin == 0 {
		return false
	}
	for began := l.now(); l.now().Sub(began) < l.spin; {
		if l.turn() {
			return true
		}
	}
	return false
}

func (l *Loop) handleDeaths() int {
	n := l.ring.HandleDeaths()
	l.counters.Add(stats.Graces, uint64(n))
	return n
}

// closeSlabs closes what the policy says, and takes over what frontends or HandleDeaths have closed.
//
// Slabs are opened in rotation, and frontends take rows from the open ones in rotation, beginning with the one after
// the slab that was closed last. The search goes the same way, so with batching off it finds the slabs in the order in
// which requests have taken them.
func (l *Loop) closeSlabs() int {
	n, first := 0, l.oldest
	for k := range l.slabs {
		i := (first + k) % len(l.slabs)
		s := &l.slabs[i]
		if l.ring.Phase(i) == shmring.PhaseOpen {
			rows := l.ring.Rows(i)
			if rows == 0 {
				continue
			}
			if s.firstRow.IsZero() {
				s.firstRow = l.clock
				n++ // the time until the slab is due begins, so the loop must not sleep as if it had none
			}
			if l.draining || l.policy.close(slabState{
				rows: rows, capacity: l.geometry.Capacity, sinceFirst: l.clock.Sub(s.firstRow), deviceFree: l.deviceFree(),
			}) {
				l.ring.Close(i)
			}
		}
		if l.ring.Phase(i) == shmring.PhaseClosed && !s.taken {
			s.taken, s.closed = true, l.clock
			l.queue = append(l.queue, i)
			l.oldest = (i + 1) % len(l.slabs)
			n++
		}
	}
	return n
}

// deviceFree reports whether a slab that is closed now would be launched as soon as its rows are committed. A slab that
// has waited too long for a commit, or that waits for the end of another one's rerun, does not count against it.
func (l *Loop) deviceFree() bool {
	n := l.inflight
	for _, i := range l.queue {
		if l.ring.Attempts(i) == 0 && (l.clock.Sub(l.slabs[i].closed) < commitPatience || l.ring.Ready(i)) {
			n++
		}
	}
	return n < l.depth
}

// openSlabs keeps one slab open, or with batching off all free ones. While draining it opens none, so that the work ends.
func (l *Loop) openSlabs() int {
	l.open = 0
	for i := range l.slabs {
		if l.ring.Phase(i) == shmring.PhaseOpen {
			l.open++
		}
	}
	n := 0
	for !l.draining && (l.open == 0 || l.policy.kind.Alone()) {
		i, ok := l.ring.Open()
		if !ok {
			break
		}
		l.slabs[i] = slab{}
		l.open++
		n++
	}
	return n
}

// drainLimit bounds how long the loop goes on with closed slabs after it was told to stop. It is well below what the
// supervisor grants, and what is left is safe in the region.
const drainLimit = time.Second

// ended reports whether Run is over. Launches in flight are waited for, since the executor has their memory; a device
// that hangs is the supervisor's to end, which sees the age of the launch. A dead device is not waited for so long.
func (l *Loop) ended() bool {
	if l.err == nil && !l.stopped.Load() {
		return false
	}
	if !l.draining {
		l.draining, l.drainBy = true, l.now().Add(drainLimit)
	}
	overdue := !l.now().Before(l.drainBy)
	if l.inflight > 0 {
		return l.err != nil && overdue
	}
	return l.err != nil || overdue || l.idle()
}

// idle reports whether no slab has work that could be done without opening one.
func (l *Loop) idle() bool {
	for i := range l.slabs {
		if p := l.ring.Phase(i); p == shmring.PhaseClosed || p == shmring.PhaseOpen && l.ring.Rows(i) > 0 {
			return false
		}
	}
	return true
}

// mayLaunch reports whether the loop may hand the executor one more batch (I1).
func (l *Loop) mayLaunch() bool {
	return l.inflight < l.depth && l.err == nil && (!l.draining || l.clock.Before(l.drainBy))
}
