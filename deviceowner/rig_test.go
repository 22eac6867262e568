package deviceowner

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"rankd/internal/stats"
	"rankd/shmring"
)

const (
	testStride   = 64
	testCapacity = 8
)

// setup is what a rig is made of; zero fields have the values of newRig.
type setup struct {
	batching  string
	maxDelay  time.Duration
	depth     int
	slabs     int
	frontends int
	straggler time.Duration
	realTime  bool
}

// rig is a region on the heap with all its roles, and a loop whose turns the test takes by hand, or that runs.
type rig struct {
	t        testing.TB
	cfg      Config
	region   *shmring.Region
	bells    chanBells
	super    *shmring.Supervisor
	fronts   []*shmring.Frontend
	exec     *fake
	page     *stats.Page
	counters *stats.Block // the owner's of page
	clock    *fakeClock   // nil: real time
	loop     *Loop
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	cfg := Default()
	cfg.Batching, cfg.MaxDelay = s.batching, s.maxDelay
	cfg.PipelineDepth = max(s.depth, 1)
	if s.straggler != 0 {
		cfg.Straggler = s.straggler
	}
	if s.slabs == 0 {
		s.slabs = cfg.Slabs()
	}
	g := shmring.Geometry{
		Slabs: s.slabs, Capacity: testCapacity, ChunkRows: 4, Strides: []int{testStride}, ScoreBytes: 4,
		Frontends: max(s.frontends, 1), Writers: 3,
	}
	region, err := shmring.Format(shmring.HeapMemory(g.Bytes()), g)
	if err != nil {
		t.Fatal(err)
	}
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(page.Close(), file.Close()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{
		t: t, cfg: cfg, region: region, bells: newChanBells(g.Frontends), page: page, counters: page.Owner(),
		exec: &fake{t: t, depth: cfg.PipelineDepth},
	}
	r.super = region.Supervisor(r.bells)
	if !s.realTime {
		r.clock = &fakeClock{t: time.Unix(1000, 0)}
	}
	r.start(1)
	for i := range g.Frontends {
		f, err := region.Frontend(i, 1)
		if err != nil {
			t.Fatal(err)
		}
		r.fronts = append(r.fronts, f)
	}
	r.settle()
	return r
}

// start makes an owner and its loop.
func (r *rig) start(incarnation uint32) {
	r.t.Helper()
	owner, err := r.region.Owner(incarnation, r.bells)
	if err != nil {
		r.t.Fatal(err)
	}
	r.loop, err = NewLoop(Options{
		Ring: owner, Geometry: r.region.Geometry(), Executor: r.exec, Config: r.cfg, Buckets: []int{1, 2, 4, 8}, Counters: r.counters,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.clock != nil {
		r.loop.now = r.clock.now
	}
}

// succeed abandons the loop as a kill would, does the supervisor's part, and starts the next incarnation with an executor of its own.
func (r *rig) succeed(incarnation uint32) {
	r.t.Helper()
	r.super.MarkOwnerDead(incarnation - 1)
	r.counters.ClearGauges()
	r.exec = &fake{t: r.t, depth: r.exec.depth, verdict: r.exec.verdict}
	r.start(incarnation)
}

// settle turns until a turn changes nothing.
func (r *rig) settle() {
	r.t.Helper()
	for range 1000 {
		if !r.loop.turn() {
			return
		}
	}
	r.t.Fatal("I8: the loop finds something to do for ever")
}

// finish ends the i-th launch in flight and settles.
func (r *rig) finish(i int) {
	r.t.Helper()
	r.exec.flight(i).end()
	r.settle()
}

// call is a request and what it was answered.
type call struct {
	t     testing.TB
	first uint32
	res   shmring.Reservation

	mu       sync.Mutex
	answered int
	refused  int
	done     chan struct{}
	rows     int
}

func newCall(t testing.TB, first uint32, rows int) *call {
	return &call{t: t, first: first, rows: rows, done: make(chan struct{})}
}

// Complete checks the scores of rows [tag, tag+n) of the call.
func (c *call) Complete(tag int, scores []byte, status shmring.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(scores) / 4
	if status != shmring.StatusOK {
		n = c.res.N // calls that may be refused have one reservation
		c.refused++
	}
	for i := range len(scores) / 4 {
		if got, want := binary.LittleEndian.Uint32(scores[4*i:]), c.first+uint32(tag+i)+1000; got != want {
			c.t.Errorf("row %d of call %d: score %d, want %d", tag+i, c.first, got, want)
		}
	}
	c.answered += n
	if c.answered == c.rows {
		close(c.done)
	}
	if c.answered > c.rows {
		c.t.Errorf("call %d: %d rows answered of %d", c.first, c.answered, c.rows)
	}
}

// reserve takes rows of one slab for a call of n rows with the values first, first+1, …, and writes them.
func (r *rig) reserve(frontend int, first uint32, n int) *call {
	r.t.Helper()
	c := newCall(r.t, first, n)
	var ok bool
	if c.res, ok = r.fronts[frontend].Reserve(n, r.cfg.Batching == "off", c, 0); !ok || c.res.N != n {
		r.t.Fatalf("reserve %d rows: got %d, %v", n, c.res.N, ok)
	}
	writeRows(&c.res, first)
	return c
}

func writeRows(v *shmring.Reservation, first uint32) {
	for i := range v.N {
		binary.LittleEndian.PutUint32(v.Array(0)[i*testStride:], first+uint32(i))
	}
}

// request reserves, writes and commits.
func (r *rig) request(frontend int, first uint32, n int) *call {
	r.t.Helper()
	c := r.reserve(frontend, first, n)
	r.fronts[frontend].Commit(&c.res)
	return c
}

// deliver lets every frontend take its scores.
func (r *rig) deliver() {
	for _, f := range r.fronts {
		f.Poll()
	}
}

// wantAnswered fails the test unless the calls are answered, without a refusal.
func (r *rig) wantAnswered(calls ...*call) {
	r.t.Helper()
	r.deliver()
	for _, c := range calls {
		c.mu.Lock()
		if c.answered != c.rows || c.refused != 0 {
			r.t.Errorf("call %d: %d of %d rows answered, %d refusals", c.first, c.answered, c.rows, c.refused)
		}
		c.mu.Unlock()
	}
}

func (r *rig) wantUnanswered(calls ...*call) {
	r.t.Helper()
	r.deliver()
	for _, c := range calls {
		if c.answered != 0 {
			r.t.Errorf("call %d is answered, want it to wait", c.first)
		}
	}
}

func (r *rig) wantCount(c stats.Counter, name string, want uint64) {
	r.t.Helper()
	if got := r.counters.Load(c); got != want {
		r.t.Errorf("%s: got %d, want %d", name, got, want)
	}
}

// wantAtRest fails the test unless the region is sound and holds nothing.
func (r *rig) wantAtRest() {
	r.t.Helper()
	for _, line := range r.region.Check(true) {
		r.t.Errorf("check: %s", line)
	}
	if n := r.counters.Gauge(stats.LaunchesInFlight); n != 0 {
		r.t.Errorf("launches in flight: gauge %d at rest", n)
	}
	if age := r.super.OldestLaunch(); age != 0 {
		r.t.Errorf("oldest launch: %v old at rest", age)
	}
}

// chanBells is a set of doorbells inside one process.
type chanBells []chan struct{}

func newChanBells(n int) chanBells {
	b := make(chanBells, n)
	for i := range b {
		b[i] = make(chan struct{}, 1)
	}
	return b
}

func (b chanBells) Ring(i int) {
	select {
	case b[i] <- struct{}{}:
	default:
	}
}
