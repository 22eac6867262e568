package deviceowner

import (
	"time"

	"rankd/internal/stats"
	"rankd/shmring"
)

// parked is what the loop remembers while it sleeps. It tells a wake-up that was lost from one that was not needed.
type parked struct {
	recheck   func() bool // made once, so that parking allocates nothing
	acks      bool        // acknowledgements ring too
	asked     bool        // the recheck after the announcement is done
	found     bool        // that recheck found work, so the loop did not sleep
	committed int         // rows committed when the sleep began
	unrung    bool        // the sleep has ended by time, and something was there that should have rung
}

// park sleeps until something happens, at most until something is due by time.
func (l *Loop) park() {
	p := &l.parked
	// With an open slab nobody needs the slabs that are being read, so their acknowledgements need not wake the loop.
	*p = parked{recheck: p.recheck, acks: l.open == 0}
	timedOut := l.ring.Park(p.acks, l.sleepLimit(), p.recheck)
	switch {
	case p.found:
	case !timedOut:
		l.counters.Inc(stats.WakesBell)
	case p.unrung:
		l.counters.Inc(stats.WakesTimerWithWork)
	default:
		l.counters.Inc(stats.WakesTimer)
	}
}

// recheck is called by Owner.Park while the sleep is announced: before the sleep, when true keeps the loop awake, and
// again if the sleep ended by time.
func (l *Loop) recheck() bool {
	p := &l.parked
	if p.asked {
		p.unrung = l.unrung()
		return false
	}
	p.asked = true
	p.found = l.stopped.Load() && !l.draining || l.turn()
	p.committed = l.committed()
	return p.found
}

// unrung reports whether anything is there for which its author had to ring. The announcement still stands: if it was
// rung meanwhile, Owner.Park says so, and nothing was lost. Rows that are reserved and not committed ring nothing, and
// neither do acknowledgements while a slab is open, nor whatever is due by time.
func (l *Loop) unrung() bool {
	return l.committed() != l.parked.committed || len(l.done) > 0 || l.handleDeaths() > 0 || l.parked.acks && l.ring.Recycle() > 0
}

// committed returns the committed rows of the slabs that frontends may still be writing to.
func (l *Loop) committed() int {
	n := 0
	for i := range l.slabs {
		if p := l.ring.Phase(i); p == shmring.PhaseOpen || p == shmring.PhaseClosed {
			n += l.ring.Committed(i)
		}
	}
	return n
}

// gracePoll is how often the loop looks for the end of a grace period, which rings no bell.
const gracePoll = time.Millisecond

// sleepLimit returns how long the loop may sleep: what ends by time rings no bell. Times are counted from the turn that
// left things as they are, so that nothing which has become due since then is taken for something that never will.
func (l *Loop) sleepLimit() time.Duration {
	limit := shmring.MaxPark
	until := func(d time.Duration) {
		if d > 0 {
			limit = min(limit, d)
		}
	}
	for i := range l.slabs {
		if s := &l.slabs[i]; l.ring.Phase(i) == shmring.PhaseOpen && !s.firstRow.IsZero() {
			until(l.policy.due(l.clock.Sub(s.firstRow)))
		}
	}
	for _, i := range l.queue {
		if l.ring.Ready(i) {
			continue
		}
		until(commitPatience - l.clock.Sub(l.slabs[i].closed))
		if l.ring.InGrace(i) {
			until(gracePoll)
		}
	}
	if l.draining {
		until(l.drainBy.Sub(l.clock))
	}
	return limit
}
