//go:build ringsim

package shmring

import (
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"
)

// A simulator runs the actors of a simulated server one at a time. Every actor is a coroutine; before each access to a
// shared word (see access_sim_unsafe.go), at each named sync point and at each wait the simulator decides who goes on, so
// that a run is a function of its scenario and of those decisions alone.
//
// Processes die at such a place too: their coroutines never run again. They are unwound by a panic, so that no memory is
// kept; the product code defers nothing on these paths (TestSimulatedCodeDefersNothing), so a dead process stores nothing.
//
// Time stands still while anybody can run, but for a microsecond a step. When nobody can, the simulator looks at what the
// actors wait for. A wait that the protocol means to end by its time (polls) is ended so. A wait that ends by its bound
// only, although no process is stopped, is a lost wake-up (I5), and fails the run.
type simulator struct {
	actors  []*actor
	current *actor
	world   world
	plan    strategy

	step      int
	limit     int           // steps after which a run counts as endless
	quiet     int           // no decision before this step
	contAt    int           // step at which the stopped process goes on
	stopTime  time.Duration // when it was stopped
	clock     time.Duration // simulated
	fires     int           // waits ended by their time since progress was last made
	failure   string
	abandoned bool // by the strategy, in mid-flight
	record    []deviation
	trace     *[]string
	doomed    []*process // to be ended before anybody runs
}

// world is what the simulator asks of the simulated server.
type world interface {
	exited(p *process)            // its coroutines are gone
	faultDue(p *process) fault    // asked at each step of p
	finished() (over, again bool) // everything that was to be done is done; again: but somebody has been woken to tidy up
	stopped() bool                // a process is stopped
	held() string                 // with a process stopped for long: what the others can't do; "": nothing
	resume()                      // stopped processes go on
	check()                       // that the region is sound at any moment
	describe(word unsafe.Pointer) string
}

// process is a set of actors that live and die together.
type process struct {
	name       string
	role       int // frontend index, or one of the constants below
	number     uint32
	dead       bool
	stopped    bool
	wasStopped bool
	steps      int  // of its actors
	faultAt    int  // step of its next fault
	crashed    bool // its death is the device's doing
	dirty      bool // it has stored since the last kill that was tried
}

const (
	roleOwner      = -1
	roleSupervisor = -2
)

type actor struct {
	id       int
	name     string
	proc     *process
	next     func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
	ready    func() bool   // nil: it can run
	until    time.Duration // when its wait ends by time; 0: never
	polls    bool          // that end is part of the protocol
	timedOut bool
	done     bool
	priority int
	op       operation // what it does when it goes on
}

// operation is an access to something that actors share: a word, a bell, a queue of the kernel.
type operation struct {
	what  unsafe.Pointer // nil: nothing shared
	write bool
}

// unwound ends a coroutine from inside.
type unwound struct{}

// deviation is a decision that differs from the default: to go on with the same actor, or, if that waits, with the next
// that can run in the order of their start, the supervisor last.
type deviation struct {
	Step int
	Kind string // "run", "kill", "stop", "freeze", "pause"
	Who  int    // actor, or the role of a process
}

type fault int

const (
	faultNone fault = iota
	faultKill
	faultStop   // for some steps
	faultFreeze // until it is killed for it, or the others have done all they can
	faultPause  // of everybody: only time passes
)

func (s *simulator) spawn(p *process, name string, body func()) {
	a := &actor{id: len(s.actors), name: name, proc: p}
	a.next, a.stop = iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		defer func() {
			a.done = true
			if e := recover(); e != nil {
				if _, ok := e.(unwound); !ok {
					s.fail("panic in %s: %v\n%s", a.name, e, debug.Stack())
				}
			}
		}()
		body()
	})
	s.actors = append(s.actors, a)
	s.plan.spawned(a)
	s.hurry()
}

// fail records the first failure; the run ends at the next decision.
func (s *simulator) fail(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
		s.note("FAILURE: " + s.failure)
	}
	s.hurry()
}

// hurry makes the next step a decision.
func (s *simulator) hurry() { s.quiet = 0 }

// progressed says that something happened for which time-outs were not needed.
func (s *simulator) progressed() { s.fires = 0 }

func (s *simulator) note(text string) {
	if s.trace != nil {
		who := "simulator"
		if s.current != nil {
			who = s.current.name
		}
		*s.trace = append(*s.trace, fmt.Sprintf("%5d  %-24s %s", s.step, who, text))
	}
}

// pause hands the processor back; it does not return if the actor's process has died.
func (s *simulator) pause(a *actor) {
	if !a.yield(struct{}{}) {
		panic(unwound{})
	}
}

func (s *simulator) touch(word unsafe.Pointer, write bool) {
	s.access(word, write)
	if s.trace != nil {
		verb := "load "
		if write {
			verb = "store "
		}
		s.note(verb + s.world.describe(word))
	}
	if write {
		s.current.proc.dirty = true
	}
}

// reach is no decision: between a sync point and the next access nothing happens that anybody else could see.
func (s *simulator) reach(p syncPoint) {
	if s.trace != nil {
		s.note("-- " + string(p))
	}
}

// access is a point before an operation.
func (s *simulator) access(what unsafe.Pointer, write bool) {
	s.current.op = operation{what, write}
	s.point()
}

// point is a place at which the running actor may be interrupted.
func (s *simulator) point() {
	a := s.current
	p := a.proc
	s.step++
	p.steps++
	if s.step < s.quiet && s.step < s.contAt && p.steps < p.faultAt {
		return
	}
	if s.step > s.limit {
		s.fail("no end after %d steps", s.limit)
	}
	s.resumeDue()
	if s.failure == "" && p.steps >= p.faultAt {
		switch s.world.faultDue(p) {
		case faultKill:
			s.plannedKill(p)
		case faultStop:
			s.plannedStop(p, stopSteps)
		case faultFreeze:
			s.plannedStop(p, never)
		case faultPause:
			s.plannedPause(p)
		}
	}
	// due may kill or stop the process.
	if s.failure == "" && !p.dead && !p.stopped && !s.plan.due(s, a) && !p.dead && !p.stopped {
		return
	}
	s.pause(a)
}

// kill ends a process before anybody runs again.
func (s *simulator) kill(p *process) {
	if p.dead || p.role == roleSupervisor {
		return
	}
	p.dead, p.stopped = true, false
	s.note("KILL " + p.name)
	s.doomed = append(s.doomed, p)
	s.hurry()
}

func (s *simulator) plannedKill(p *process) {
	if !p.dead && p.role != roleSupervisor {
		s.record = append(s.record, deviation{s.step, "kill", p.role})
		s.kill(p)
	}
}

// plannedStop stops a process; one at a time.
func (s *simulator) plannedStop(p *process, steps int) {
	if p.dead || p.role == roleSupervisor || s.world.stopped() {
		return
	}
	kind := "stop"
	if s.contAt = s.step + steps; steps == never {
		kind, s.contAt = "freeze", never
	}
	s.record = append(s.record, deviation{s.step, kind, p.role})
	s.note(strings.ToUpper(kind) + " " + p.name)
	p.stopped, p.wasStopped, s.fires, s.stopTime = true, true, 0, s.now1()
}

// plannedPause lets time pass for everybody, as when the machine or the control group is frozen.
func (s *simulator) plannedPause(p *process) {
	s.record = append(s.record, deviation{s.step, "pause", p.role})
	s.note("PAUSE of everybody")
	s.clock += pauseTime
}

// resumeDue lets the stopped process go on when it is time.
func (s *simulator) resumeDue() {
	if s.step >= s.contAt {
		s.note("CONTINUE")
		s.contAt, s.fires = never, 0
		s.world.resume()
		s.hurry()
	}
}

// await blocks the running actor until ready holds.
func (s *simulator) await(ready func() bool) { s.wait(ready, 0, false) }

// wait blocks the running actor until ready holds or, if after is not 0, for that time; it reports whether the time ended it.
func (s *simulator) wait(ready func() bool, after time.Duration, polls bool) (timedOut bool) {
	a := s.current
	if ready() {
		return false
	}
	a.ready, a.polls, a.timedOut, a.until = ready, polls, false, 0
	if after > 0 {
		a.until = s.now1() + after
	}
	s.note("waits")
	s.pause(a)
	a.ready = nil
	return a.timedOut
}

func (s *simulator) now1() time.Duration { return s.clock + time.Duration(s.step)*time.Microsecond }

var simEpoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *simulator) now() time.Time { return simEpoch.Add(s.now1()) }

func (a *actor) runnable() bool {
	return !a.done && !a.proc.dead && !a.proc.stopped && (a.ready == nil || a.timedOut || a.ready())
}

// run runs until the world is finished, nobody can go on, or the run has failed. It leaves no coroutine behind.
func (s *simulator) run() {
	simulated = s
	defer func() {
		for _, a := range s.actors {
			s.current = a
			a.proc.dead = true
			a.stop()
		}
		simulated = nil
	}()
	var ready []*actor
	decisions, waited := 0, false
	for {
		s.bury()
		s.resumeDue()
		if s.failure != "" {
			return
		}
		if decisions++; decisions%64 == 0 {
			s.world.check()
		}
		last := s.current
		ready = ready[:0]
		for _, a := range s.actors {
			if a.runnable() {
				ready = append(ready, a)
			}
		}
		if len(ready) == 0 {
			if !s.idle() {
				return
			}
			waited = true
			continue
		}
		if waited || last == nil || !last.runnable() { // a decision apart from that at the last step
			s.step++
			last, waited = nil, false
		}
		chosen := s.plan.pick(s, last, ready)
		if chosen == nil {
			s.abandoned = true
			return
		}
		if chosen != s.byDefault(last, ready) {
			s.record = append(s.record, deviation{s.step, "run", chosen.id})
		}
		s.current = chosen
		chosen.next()
	}
}

// byDefault is the choice that needs no record. The supervisor comes last: it learns of a death when the others have done
// what they can.
func (s *simulator) byDefault(last *actor, ready []*actor) *actor {
	if last != nil {
		return last
	}
	var first *actor
	for _, a := range ready {
		if a.proc.role == roleSupervisor {
			continue
		}
		if s.current != nil && a.id > s.current.id {
			return a
		}
		if first == nil {
			first = a
		}
	}
	if first == nil {
		return ready[0]
	}
	return first
}

// bury unwinds the actors of processes that have died.
func (s *simulator) bury() {
	for len(s.doomed) > 0 {
		p := s.doomed[0]
		s.doomed = s.doomed[1:]
		current := s.current
		for _, a := range s.actors {
			if a.proc == p && !a.done {
				s.current = a
				a.stop()
				a.done = true
			}
		}
		s.current = current
		s.world.exited(p)
		s.progressed()
	}
}

// idle ends a wait by its time. It returns false when the run is over.
func (s *simulator) idle() bool {
	stopped := s.world.stopped()
	if !stopped {
		if over, again := s.world.finished(); over || again {
			return again
		}
	}
	var first *actor
	for _, a := range s.actors {
		if a.done || a.proc.dead || a.proc.stopped || a.until == 0 || !stopped && !a.polls {
			continue
		}
		if first == nil || a.until < first.until {
			first = a
		}
	}
	s.fires++
	switch {
	case stopped && s.now1()-s.stopTime > patience:
		if what := s.world.held(); what != "" {
			s.fail("a stopped process holds the others up for ever: %s", what)
			return false
		}
		s.note("CONTINUE")
		s.world.resume()
		s.fires = 0
		return true
	case first == nil || !stopped && s.fires > idleFires:
		s.fail("nobody is woken although there is work (I5): %s", s.waiting())
		return false
	}
	s.clock += max(first.until-s.now1(), 0)
	first.timedOut = true
	return true
}

const (
	never     = 1 << 62
	stopSteps = 400
	pauseTime = 20 * MaxPark // more than makes a straggler, less than the limit for a hanging owner
	idleFires = 24           // timed polls in a row without progress
	patience  = 70 * MaxPark // with a stopped process: longer than the limits at which it is killed if it is in the way
)

func (s *simulator) waiting() (text string) {
	for _, a := range s.actors {
		if !a.done && !a.proc.dead {
			text += fmt.Sprintf(" [%s]", a.name)
		}
	}
	return text
}
