//go:build ringsim

package shmring

import (
	"fmt"
	"time"
	"unsafe"
)

// scenario is what is simulated: sizes, work and faults. With the deviations of a schedule it determines a run.
type scenario struct {
	Seed      uint64 // of the schedule and of the sizes of requests
	Frontends int
	Clients   int // goroutines a frontend
	Requests  int // a client; after a restart: one
	MaxRows   int // a request
	Writers   int
	Slabs     int
	Capacity  int
	Chunk     int
	Whole     bool // a request takes a slab of its own
	Inline    bool // fewer actors: the owner executes, a frontend's one client waits for the bell
	Alone     bool // no supervisor; requests begin when all roles are taken
	Awake     bool // with Alone: the owner wakes then, so that it is about to park again
	Depth     int  // launches in flight
	Ahead     bool // clients send the next request before the last is answered
	Crash     int  // number of the request on which the device crashes; 0: none
	Walk      float64
	Ranked    int // changes of priority; 0: walk
	Faults    []plannedFault
}

// plannedFault strikes a process at one of its steps.
type plannedFault struct {
	Role int
	Step int
	Kind string // "kill", "stop", "freeze" or "pause"
}

func (sc *scenario) geometry() Geometry {
	return Geometry{
		Slabs: sc.Slabs, Capacity: sc.Capacity, ChunkRows: sc.Chunk, Strides: []int{simStride}, ScoreBytes: 8,
		Frontends: sc.Frontends, Writers: sc.Writers,
	}
}

const (
	simStride    = 64
	simStraggler = 8 * MaxPark
	simHang      = 30 * MaxPark
)

// simWorld is a server of simulated processes over one real region.
type simWorld struct {
	sim     *simulator
	sc      scenario
	mem     []byte
	region  *Region // for looking in from outside
	bells   []bool
	waiters []*waiter

	frontends []*simFrontend // the current incarnations; nil: none
	owner     *simOwner
	places    []simPlace
	ownerInc  uint32
	exits     []*process
	requests  []*request
	owners    []int // rows' owners: slab × capacity
	lives     []epoch
	sweeps    int
	armed     bool // all roles are taken and a slab is open: requests may begin
	murders   int  // deaths of owners that are not the device's doing
	names     map[uintptr]string
}

// simPlace is what the supervisor knows of a frontend.
type simPlace struct {
	incarnation uint32
	recovering  bool
}

// waiter sleeps on a word.
type waiter struct {
	word  *Word
	woken bool
	proc  *process
}

func newSimWorld(sc scenario, mem []byte, plan strategy) *simWorld {
	w := &simWorld{sc: sc}
	w.sim = &simulator{world: w, plan: plan, limit: 60000, contAt: never}
	g := sc.geometry()
	if mem == nil || len(mem) < g.Bytes() {
		mem = HeapMemory(g.Bytes())
	}
	w.mem = mem[:g.Bytes()]
	clear(w.mem)
	var err error
	if w.region, err = Format(w.mem, g); err != nil {
		panic(err)
	}
	w.bells = make([]bool, g.Frontends)
	w.frontends = make([]*simFrontend, g.Frontends)
	w.places = make([]simPlace, g.Frontends)
	w.owners = make([]int, g.Slabs*g.Capacity)
	w.lives = make([]epoch, g.Slabs)
	return w
}

// run simulates until the end and returns what is wrong, or "".
func (w *simWorld) run() string {
	if w.sc.Alone {
		w.startOwner()
		for i := range w.places {
			w.startFrontend(i)
		}
	} else {
		super := &process{name: "supervisor", role: roleSupervisor, faultAt: never}
		w.sim.spawn(super, "supervisor", w.supervise)
	}
	w.sim.run()
	if w.sim.failure == "" && !w.sim.abandoned {
		w.verify()
	}
	return w.sim.failure
}

// open gives a process its own view of the region.
func (w *simWorld) open(p *process) *Region {
	r, err := Open(w.mem)
	if err != nil {
		panic(err)
	}
	r.Sleep = &simSleeper{w, p}
	r.OnCorrupt = func(err error) {
		w.sim.fail("%s: %v", p.name, err)
		panic(unwound{})
	}
	return r
}

// newProcess gives the process of a role its planned fault.
func (w *simWorld) newProcess(name string, role int, incarnation uint32) *process {
	p := &process{name: fmt.Sprintf("%s.%d", name, incarnation), role: role, number: incarnation, faultAt: never}
	if f := w.nextFault(role); f != nil {
		p.faultAt = f.Step
	}
	return p
}

func (w *simWorld) nextFault(role int) *plannedFault {
	for i := range w.sc.Faults {
		if f := &w.sc.Faults[i]; f.Role == role && f.Kind != "" {
			return f
		}
	}
	return nil
}

func (w *simWorld) faultDue(p *process) fault {
	p.faultAt = never
	f := w.nextFault(p.role)
	if f == nil {
		return faultNone
	}
	kind := f.Kind
	f.Kind = "" // used up
	if kind == "kill" {
		return faultKill
	}
	if next := w.nextFault(p.role); next != nil {
		p.faultAt = p.steps + next.Step
	}
	switch kind {
	case "freeze":
		return faultFreeze
	case "pause":
		return faultPause
	}
	return faultStop
}

func (w *simWorld) processOf(role int) *process {
	switch {
	case role == roleOwner && w.owner != nil:
		return w.owner.proc
	case role >= 0 && role < len(w.frontends) && w.frontends[role] != nil:
		return w.frontends[role].proc
	}
	return nil
}

// exited is called when the coroutines of a process are gone: the kernel has a status for the supervisor.
func (w *simWorld) exited(p *process) {
	w.exits, w.sweeps = append(w.exits, p), 0
	if p.role == roleOwner && !p.crashed {
		w.murders++
	}
	for i := 0; i < len(w.waiters); i++ {
		if w.waiters[i].proc == p {
			w.waiters = append(w.waiters[:i], w.waiters[i+1:]...)
			i--
		}
	}
	w.check()
}

func (w *simWorld) check() {
	w.outside(func() {
		for _, line := range w.region.Check(false) {
			w.sim.fail("check in mid-flight: %s", line)
		}
	})
}

// outside lets the simulator look at the region without taking part.
func (w *simWorld) outside(f func()) {
	was := simulated
	simulated = nil
	f()
	simulated = was
}

// supervise is the supervisor's loop.
func (w *simWorld) supervise() {
	me := w.sim.current.proc
	s := w.open(me).Supervisor(w)
	w.startOwner()
	for i := range w.places {
		w.startFrontend(i)
	}
	beat, beatAt := uint64(0), w.sim.now()
	for {
		for len(w.exits) > 0 {
			p := w.exits[0]
			w.exits = w.exits[1:]
			if p.role == roleOwner {
				s.MarkOwnerDead(p.number)
				s.SetOwnerState(OwnerRestarting)
			} else {
				s.MarkDead(p.role, p.number)
				w.places[p.role].recovering = true
			}
			s.RingAll()
			if p.role == roleOwner {
				w.startOwner()
				beatAt = w.sim.now()
			}
		}
		tick, waiting := MaxPark, false
		for i := range w.places {
			pl := &w.places[i]
			if pl.recovering && s.Recovered(i) {
				pl.recovering = false
				w.startFrontend(i)
			}
			if inc, wanted := s.KillRequest(i); wanted && !pl.recovering && inc == pl.incarnation {
				p := w.frontends[i].proc
				if !p.wasStopped {
					w.sim.fail("%s is to be killed as a straggler although it was never stopped", p.name)
				}
				w.sim.kill(p)
			}
			waiting = waiting || pl.recovering
		}
		if b := s.OwnerHeartbeat(); b != beat {
			beat, beatAt = b, w.sim.now()
		} else if w.sim.now().Sub(beatAt) > simHang {
			w.sim.kill(w.owner.proc)
		}
		if waiting {
			tick = MaxPark / 5
		}
		w.sim.access(unsafe.Pointer(&w.exits), true)
		w.sim.wait(func() bool { return len(w.exits) > 0 }, tick, waiting)
	}
}

func (w *simWorld) startFrontend(i int) {
	pl := &w.places[i]
	pl.incarnation++
	w.frontends[i] = &simFrontend{w: w, index: i, proc: w.newProcess(fmt.Sprintf("frontend%d", i), i, pl.incarnation)}
	w.sim.progressed()
	w.sim.spawn(w.frontends[i].proc, w.frontends[i].proc.name, w.frontends[i].main)
}

func (w *simWorld) startOwner() {
	w.ownerInc++
	w.owner = &simOwner{w: w, proc: w.newProcess("owner", roleOwner, w.ownerInc)}
	w.sim.progressed()
	w.sim.spawn(w.owner.proc, w.owner.proc.name, w.owner.main)
	w.owner.actor = w.sim.actors[len(w.sim.actors)-1]
}

// Ring makes simWorld the set of doorbells. As an eventfd, a bell outlives its process and remembers one ring.
func (w *simWorld) Ring(i int) {
	w.sim.access(unsafe.Pointer(&w.bells[i]), true)
	w.sim.note(fmt.Sprintf("ring bell %d", i))
	w.bells[i] = true
	w.sim.current.proc.dirty = true
	w.sim.hurry()
}

func (w *simWorld) waitBell(i int) {
	w.sim.access(unsafe.Pointer(&w.bells[i]), true)
	w.sim.wait(func() bool { return w.bells[i] }, MaxPark, false)
	w.bells[i] = false
}

// simSleeper is the futex of the simulated kernel: the comparison and the falling asleep are one step.
type simSleeper struct {
	w *simWorld
	p *process
}

func (s *simSleeper) Wait(word *Word, value uint32, timeout time.Duration) bool {
	s.w.sim.access(unsafe.Pointer(word), true)
	s.w.sim.note("futex wait")
	if word.v.Load() != value {
		return false
	}
	me := &waiter{word: word, proc: s.p}
	s.w.waiters = append(s.w.waiters, me)
	timedOut := s.w.sim.wait(func() bool { return me.woken }, timeout, timeout < MaxPark)
	for i, other := range s.w.waiters {
		if other == me {
			s.w.waiters = append(s.w.waiters[:i], s.w.waiters[i+1:]...)
			break
		}
	}
	return timedOut && !me.woken
}

func (s *simSleeper) Wake(word *Word) {
	s.w.sim.access(unsafe.Pointer(word), true)
	s.w.sim.note("futex wake")
	for _, sleeping := range s.w.waiters {
		if sleeping.word == word {
			sleeping.woken = true
		}
	}
	s.w.sim.current.proc.dirty = true
	s.w.sim.hurry()
}

// finished wakes the owner a few times when all work is done, since nobody rings it for an ack that makes no room for
// anybody, and a slab of void rows is executed for nobody.
func (w *simWorld) finished() (over, again bool) {
	if w.sc.Alone && !w.armed {
		w.armed, w.owner.actor.timedOut = true, w.sc.Awake
		return false, true
	}
	if len(w.exits) > 0 || w.owner == nil || w.owner.proc.dead {
		return false, false
	}
	for i, f := range w.frontends {
		if w.places[i].recovering || f.proc.dead || !f.finished() {
			return false, false
		}
	}
	if w.sweeps < 4 && w.owner.actor.ready != nil {
		w.sweeps++
		w.owner.actor.timedOut = true
		return false, true
	}
	return true, false
}

func (w *simWorld) stopped() bool {
	for _, f := range w.frontends {
		if f != nil && f.proc.stopped {
			return true
		}
	}
	return w.owner != nil && w.owner.proc.stopped
}

func (w *simWorld) resume() {
	for _, f := range w.frontends {
		if f != nil {
			f.proc.stopped = false
		}
	}
	if w.owner != nil {
		w.owner.proc.stopped = false
	}
}

// held says which requests of processes that are not stopped are unanswered.
func (w *simWorld) held() string {
	for _, q := range w.requests {
		if q.left > 0 && !q.proc.dead && !q.proc.stopped {
			return q.String()
		}
	}
	return ""
}

// verify is the end of every run: the region is at rest, and every request of a living process was answered.
func (w *simWorld) verify() {
	for _, line := range w.region.Check(true) {
		w.sim.fail("check at the end: %s", line)
	}
	for i := range w.region.g.Slabs {
		if phase, s := w.region.phase(i); phase != PhaseFree && (phase != PhaseOpen || s.reserved() != 0) {
			w.sim.fail("slab %d is %s with %d rows at the end, want free or open and empty (I7)", i, phase, s.reserved())
		}
	}
	h := w.region.header()
	for i := range w.region.g.Frontends {
		if h.dead[i].Load() != h.recovered[i].Load() {
			w.sim.fail("frontend %d: recovered %d, dead %d (I8)", i, h.recovered[i].Load(), h.dead[i].Load())
		}
	}
	for _, q := range w.requests {
		if q.left != 0 && !q.proc.dead {
			w.sim.fail("unanswered at the end: %s (I3)", q)
		}
	}
}

// granted checks that the rows of a life have one owner each.
func (w *simWorld) granted(v *Reservation, request int) {
	if v.N < 1 || v.start < 0 || v.start+v.N > w.sc.Capacity {
		w.sim.fail("reservation of rows %d to %d in a slab of %d (I2)", v.start, v.start+v.N, w.sc.Capacity)
		return
	}
	rows := w.owners[v.slab*w.sc.Capacity:][:w.sc.Capacity]
	if w.lives[v.slab] != v.epoch {
		w.lives[v.slab] = v.epoch
		clear(rows)
	}
	for i := v.start; i < v.start+v.N; i++ {
		if rows[i] != 0 {
			w.sim.fail("row %d of slab %d belongs to requests %d and %d in epoch %d (I1)", i, v.slab, rows[i], request, v.epoch)
		}
		rows[i] = request
	}
}

// describe names a word for the trace.
func (w *simWorld) describe(word unsafe.Pointer) string {
	if w.names == nil {
		w.names = w.region.wordNames()
	}
	if name, ok := w.names[uintptr(word)]; ok {
		return name
	}
	at := int(uintptr(word) - uintptr(unsafe.Pointer(&w.mem[0])) - uintptr(w.region.l.slabs))
	slab, at := at/w.region.l.slabBytes, at%w.region.l.slabBytes
	if at >= w.region.l.scores {
		return fmt.Sprintf("slab %d score of row %d", slab, (at-w.region.l.scores)/8)
	}
	return fmt.Sprintf("slab %d row %d", slab, (at-w.region.l.arrays[0])/simStride)
}

func (r *Region) wordNames() map[uintptr]string {
	names := map[uintptr]string{}
	name := func(p unsafe.Pointer, format string, args ...any) { names[uintptr(p)] = fmt.Sprintf(format, args...) }
	h := r.header()
	name(unsafe.Pointer(&h.magic), "magic")
	name(unsafe.Pointer(&h.owner.claim), "owner claim")
	name(unsafe.Pointer(&h.owner.heartbeat), "heartbeat")
	name(unsafe.Pointer(&h.owner.oldest), "oldest launch")
	name(unsafe.Pointer(&h.owner.openMask), "open mask")
	name(unsafe.Pointer(&h.owner.primary), "primary")
	name(unsafe.Pointer(&h.bell.word), "owner's bell")
	name(unsafe.Pointer(&h.space.mask), "space mask")
	name(unsafe.Pointer(&h.supervisor.deaths), "deaths")
	name(unsafe.Pointer(&h.supervisor.ownerState), "owner state")
	name(unsafe.Pointer(&h.supervisor.deadOwner), "dead owner")
	name(unsafe.Pointer(&h.supervisor.draining), "draining")
	for i := range r.g.Frontends {
		b := r.frontendBlock(i)
		name(unsafe.Pointer(&h.dead[i]), "dead %d", i)
		name(unsafe.Pointer(&h.recovered[i]), "recovered %d", i)
		name(unsafe.Pointer(&h.kill[i]), "kill %d", i)
		name(unsafe.Pointer(&b.claim), "frontend %d claim", i)
		name(unsafe.Pointer(&b.pendingRows), "frontend %d pending rows", i)
		for k := range r.g.Writers {
			name(unsafe.Pointer(r.writerWord(i, k)), "frontend %d writer %d", i, k)
		}
	}
	for i := range r.g.Slabs {
		c := r.slabControl(i)
		for part, p := range map[string]unsafe.Pointer{
			"state": unsafe.Pointer(&c.state), "committed": unsafe.Pointer(&c.committed), "pending": unsafe.Pointer(&c.pending),
			"done": unsafe.Pointer(&c.done), "recycled": unsafe.Pointer(&c.recycled), "status": unsafe.Pointer(&c.status),
			"attempts": unsafe.Pointer(&c.attempts), "cursor": unsafe.Pointer(&c.cursor),
		} {
			name(p, "slab %d %s", i, part)
		}
		for row := range r.g.Capacity {
			name(unsafe.Pointer(&r.entries(i)[row]), "slab %d entry %d", i, row)
			name(unsafe.Pointer(&r.results(i)[row]), "slab %d result %d", i, row)
		}
	}
	return names
}
