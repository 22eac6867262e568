//go:build ringsim

package shmring

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// explorer runs every schedule of a small scenario that differs from the default one by a bounded number of deviations.
// The default schedule runs an actor until it waits and then the next in the order of their start, the supervisor last, so
// that a dead process is like one that is merely slow until everybody waits. A deviation runs another
// actor that can run, at any access to a shared word, any ring or wake-up, or any wait (delay bounding: Emmi, Qadeer,
// Rakamarić, Delay-Bounded Scheduling, 2011); after it the default goes on from there. A kill is tried before each access of
// the process that follows a store of it: in between, nobody else can tell whether it has died yet.
//
// So what is claimed is: no schedule with at most so many deviations and kills breaks an invariant. It is not a proof for
// all schedules.
type explorer struct {
	sc         scenario
	switches   int
	kills      int
	part, of   int // of the schedules with a deviation, explore those with this remainder
	mem        []byte
	count      int
	longest    int
	failure    string
	deviations []deviation // of the failure
}

// scripted follows a list of deviations and notes what could have been done differently after the last of them.
type scripted struct {
	replay
	after        int // step of the last deviation
	switch_      bool
	kill         bool
	alternatives []deviation
}

func (x *scripted) due(s *simulator, a *actor) bool {
	if len(x.todo) > 0 {
		return x.replay.due(s, a) || x.keep(s)
	}
	s.quiet = 0
	if s.step <= x.after {
		return false
	}
	if x.kill && a.proc.dirty && a.proc.role != roleSupervisor {
		x.alternatives = append(x.alternatives, deviation{s.step, "kill", a.proc.role})
	}
	a.proc.dirty = false
	x.others(s, a)
	return false
}

// keep undoes the silence that a replay asks for, since the steps after it matter too.
func (x *scripted) keep(s *simulator) bool {
	if len(x.todo) == 0 {
		s.quiet = 0
	}
	return false
}

func (x *scripted) pick(s *simulator, last *actor, ready []*actor) *actor {
	chosen := x.replay.pick(s, last, ready)
	if len(x.todo) == 0 {
		s.quiet = 0
		if last == nil && s.step > x.after {
			x.others(s, chosen)
		}
	}
	return chosen
}

func (x *scripted) others(s *simulator, chosen *actor) {
	if !x.switch_ {
		return
	}
	for _, b := range s.actors {
		if b != chosen && b.runnable() {
			x.alternatives = append(x.alternatives, deviation{s.step, "run", b.id})
		}
	}
}

func (e *explorer) explore(prefix []deviation) {
	if e.failure != "" {
		return
	}
	x := &scripted{replay: replay{todo: append([]deviation(nil), prefix...)}}
	switches, kills := 0, 0
	for _, d := range prefix {
		if x.after = d.Step; d.Kind == "run" {
			switches++
		} else {
			kills++
		}
	}
	x.switch_, x.kill = switches < e.switches, kills < e.kills
	w := newSimWorld(e.sc, e.mem, x)
	x.find = w.processOf
	failure := w.run()
	if len(prefix) > 0 || e.part == 0 {
		e.count++
	}
	e.longest = max(e.longest, w.sim.step)
	if failure != "" {
		e.failure, e.deviations = failure, prefix
		return
	}
	for i, d := range x.alternatives {
		if len(prefix) == 0 && e.of > 1 && i%e.of != e.part {
			continue
		}
		e.explore(append(prefix[:len(prefix):len(prefix)], d))
	}
}

// exhaustive are the scenarios whose schedules are enumerated.
var exhaustive = []struct {
	name            string
	sc              scenario
	switches, kills int
	long            bool // only if RANKD_SIM_SCHEDULES asks for much
}{
	{"one frontend, two requests, a kill", scenario{Frontends: 1, Requests: 2}, 1, 1, false},
	{"one frontend, two requests", scenario{Frontends: 1, Requests: 2}, 2, 0, false},
	{"two frontends", scenario{Frontends: 2, Requests: 1}, 2, 0, false},
	{"two frontends, a kill", scenario{Frontends: 2, Requests: 1}, 1, 1, false},
	{"one frontend, one request, two kills", scenario{Frontends: 1, Requests: 1}, 0, 2, false},
	{"one frontend, one request, a kill, two deviations", scenario{Frontends: 1, Requests: 1}, 2, 1, true},
	{"two frontends, two kills, one deviation", scenario{Frontends: 2, Requests: 1}, 1, 2, true},
	{"one frontend, one request, three deviations", scenario{Frontends: 1, Requests: 1}, 3, 0, true},
}

// TestExhaustive enumerates the schedules of small scenarios.
func TestExhaustive(t *testing.T) {
	long := os.Getenv("RANKD_SIM_SCHEDULES") != ""
	if long && !isWorker() {
		runWorkers(t, "^TestExhaustive$")
		return
	}
	part, of := worker()
	mem := simMemory()
	for _, c := range exhaustive {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if c.long && !long {
				t.Skip("long: set RANKD_SIM_SCHEDULES")
			}
			c.sc.Clients, c.sc.MaxRows, c.sc.Writers, c.sc.Slabs, c.sc.Capacity, c.sc.Chunk, c.sc.Depth = 1, 1, 1, 2, 2, 1, 1
			c.sc.Inline = true
			e := &explorer{sc: c.sc, switches: c.switches, kills: c.kills, part: part, of: of, mem: mem}
			began := time.Now()
			e.explore(nil)
			if e.failure != "" {
				list := thin(e.sc, e.deviations, mem)
				t.Errorf("%s\n%s", e.failure, present(e.sc, list, mem))
			}
			what := fmt.Sprintf("all schedules with at most %d deviations and %d kills: %s", c.switches, c.kills, c.name)
			report(t, result{Name: what, Schedules: e.count, Longest: e.longest, Seconds: time.Since(began).Seconds()})
		})
	}
}
