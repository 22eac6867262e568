//go:build ringsim

package shmring

import (
	"math/rand/v2"
)

// strategy decides who runs.
type strategy interface {
	// due is asked at a step of actor a from which the simulator was not told to keep quiet; true: pick decides.
	due(s *simulator, a *actor) bool
	// pick chooses from the actors that can run; nil ends the run. last is the one that ran, or nil if it can't go on.
	pick(s *simulator, last *actor, ready []*actor) *actor
	spawned(a *actor)
}

// walk switches to a random actor with a fixed probability at each step.
type walk struct {
	rng *rand.Rand
	p   float64
}

func (w *walk) spawned(*actor) {}

func (w *walk) due(s *simulator, _ *actor) bool {
	if s.quiet == 0 {
		w.next(s)
		return false
	}
	return s.step >= s.quiet
}

func (w *walk) next(s *simulator) {
	n := 1
	for w.rng.Float64() >= w.p && n < 10000 {
		n++
	}
	s.quiet = s.step + n
}

func (w *walk) pick(s *simulator, _ *actor, ready []*actor) *actor {
	w.next(s)
	return ready[w.rng.IntN(len(ready))]
}

// ranked gives each actor a random priority and runs the highest, but for a few random steps at which the running one
// falls to the bottom. A bug that needs d decisions is found with a probability that falls with d, not with the length of
// the run (Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010).
type ranked struct {
	rng     *rand.Rand
	changes []int // steps, ascending
	bottom  int
}

func newRanked(rng *rand.Rand, depth, length int) *ranked {
	r := &ranked{rng: rng}
	for range depth {
		r.changes = append(r.changes, rng.IntN(length))
	}
	for i := range r.changes { // a few only
		for j := i; j > 0 && r.changes[j] < r.changes[j-1]; j-- {
			r.changes[j], r.changes[j-1] = r.changes[j-1], r.changes[j]
		}
	}
	return r
}

func (r *ranked) spawned(a *actor) { a.priority = 1 + r.rng.IntN(1<<20) }

func (r *ranked) due(s *simulator, a *actor) bool {
	for len(r.changes) > 0 && s.step >= r.changes[0] {
		r.changes = r.changes[1:]
		r.bottom--
		a.priority = r.bottom
	}
	s.quiet = never
	if len(r.changes) > 0 {
		s.quiet = r.changes[0]
	}
	return true
}

func (r *ranked) pick(_ *simulator, _ *actor, ready []*actor) *actor {
	best := ready[0]
	for _, a := range ready[1:] {
		if a.priority > best.priority {
			best = a
		}
	}
	return best
}

// replay repeats recorded deviations. One that can't be followed is passed over, so that a list may be thinned out.
type replay struct {
	todo []deviation
	find func(role int) *process
}

func (r *replay) spawned(*actor) {}

func (r *replay) due(s *simulator, _ *actor) bool {
	for len(r.todo) > 0 && r.todo[0].Step < s.step {
		r.todo = r.todo[1:]
	}
	if len(r.todo) == 0 {
		s.quiet = never
		return false
	}
	if s.quiet = r.todo[0].Step; s.step < s.quiet {
		return false
	}
	r.faults(s)
	return true
}

// faults performs what is due at this step.
func (r *replay) faults(s *simulator) {
	for len(r.todo) > 0 && r.todo[0].Step == s.step && r.todo[0].Kind != "run" {
		d := r.todo[0]
		r.todo = r.todo[1:]
		if p := r.find(d.Who); p != nil {
			switch d.Kind {
			case "kill":
				s.plannedKill(p)
			case "stop":
				s.plannedStop(p, stopSteps)
			case "freeze":
				s.plannedStop(p, never)
			case "pause":
				s.plannedPause(p)
			}
		}
	}
}

func (r *replay) pick(s *simulator, last *actor, ready []*actor) *actor {
	for len(r.todo) > 0 && r.todo[0].Step < s.step {
		r.todo = r.todo[1:]
	}
	if len(r.todo) > 0 && r.todo[0].Step == s.step && r.todo[0].Kind == "run" {
		d := r.todo[0]
		r.todo = r.todo[1:]
		for _, a := range ready {
			if a.id == d.Who {
				return a
			}
		}
	}
	return s.byDefault(last, ready)
}
