package shmring

import (
	"math/bits"
	"time"
)

// grace is a snapshot of the writer words, taken after slabs were closed. A word that was even then, or that has changed
// since, belongs to a writer that holds no reservation from before the snapshot any more.
type grace struct {
	writers int
	words   []uint64 // by frontend, then token; even: nothing to wait for

	timed bool          // Stragglers has seen it
	since time.Duration // when, in watched time
}

func (o *Owner) newGrace() *grace {
	g := &grace{writers: o.r.g.Writers, words: make([]uint64, o.r.g.Frontends*o.r.g.Writers)}
	for f := range o.r.g.Frontends {
		if o.r.deadFrontend(f) {
			continue
		}
		for w := range g.writers {
			g.words[f*g.writers+w] = o.r.writerWord(f, w).Load() // SYNC(writer): pairs with writer.enter and writer.leave
		}
	}
	return g
}

// stuck returns the live frontends with a word that is odd and has not changed since the snapshot.
func (g *grace) stuck(r *Region) uint64 {
	var mask uint64
	for f := range r.g.Frontends {
		words := g.words[f*g.writers : (f+1)*g.writers]
		for w, seen := range words {
			if seen%2 == 0 {
				continue
			}
			if r.deadFrontend(f) || r.writerWord(f, w).Load() != seen {
				words[w] = 0
				continue
			}
			mask |= 1 << f
		}
	}
	return mask
}

// graceOver reports whether the rows of a closed slab that are not committed now are a dead frontend's: no live writer
// holds a reservation from before the close.
func (o *Owner) graceOver(slab int) bool {
	v := &o.slabs[slab]
	if v.watch == nil {
		v.watch = o.newGrace()
	}
	return v.watch.stuck(o.r) == 0
}

// InGrace reports whether a closed slab waits for the end of a grace period.
func (o *Owner) InGrace(slab int) bool { return o.slabs[slab].needsGrace }

// HandleDeaths closes the slabs in which a frontend that was reaped may have rows, removes its bits, and lets the
// supervisor start the next incarnation. It returns the number of dead frontends handled.
func (o *Owner) HandleDeaths() int {
	h := o.r.header()
	deaths := h.supervisor.deaths.Load() // SYNC(dead): pairs with Supervisor.MarkDead
	if deaths == o.deathsSeen {
		return 0
	}
	o.deathsSeen = deaths
	var died uint64
	for i := range o.r.g.Frontends {
		if h.dead[i].Load() != h.recovered[i].Load() {
			died |= 1 << i
		}
	}
	if died == 0 {
		return 0
	}
	for i := range o.slabs {
		o.removeDead(i, died)
	}
	at(pointBitsCleared)
	for m := died; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		h.recovered[i].Store(h.dead[i].Load()) // SYNC(recovered): pairs with Supervisor.Recovered
	}
	return bits.OnesCount64(died)
}

func (o *Owner) removeDead(slab int, died uint64) {
	v := &o.slabs[slab]
	if v.phase == PhaseOpen && o.Rows(slab) > 0 {
		o.Close(slab)
	}
	if v.phase == PhaseClosed && !v.needsGrace {
		// A snapshot taken earlier for the stragglers is still after the close, so it serves.
		v.needsGrace = true
	}
	c := o.r.slabControl(slab)
	if c.pending.Load()&died != 0 {
		c.pending.And(^died)
	}
}

// Stragglers asks the supervisor to kill the live frontends that hold an uncommitted reservation in a closed slab, or an
// unread done slab, for longer than after. It returns their mask. Call it several times within that time.
//
// Time counts only as far as this owner was there to see it pass: after a pause of the owner, or of all processes at once,
// the frontends have not had that time, so it counts for no more than a quarter of it.
func (o *Owner) Stragglers(after time.Duration) uint64 {
	t := now()
	if !o.looked.IsZero() {
		o.watched += min(t.Sub(o.looked), after/4)
	}
	o.looked = t
	var mask uint64
	for i := range o.slabs {
		v := &o.slabs[i]
		if v.held != v.phase {
			v.held, v.heldSince = v.phase, o.watched
		}
		age := o.watched - v.heldSince
		switch {
		case v.phase == PhaseDone && age > after:
			mask |= o.r.slabControl(i).pending.Load()
		case v.phase == PhaseClosed && age > after/2 && o.Committed(i) != v.rows:
			if v.watch == nil {
				v.watch = o.newGrace()
			}
			if g := v.watch; !g.timed {
				g.timed, g.since = true, o.watched
			} else if o.watched-g.since > after/2 {
				mask |= g.stuck(o.r)
			}
		}
	}
	for m := mask; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); i < o.r.g.Frontends && !o.r.deadFrontend(i) {
			inc := claimWord(o.r.frontendBlock(i).claim.Load()).incarnation()
			o.r.header().kill[i].Store(inc) // read by Supervisor.KillRequest
		}
	}
	return mask
}

// Beat tells the watchdog that the owner's loop turns.
func (o *Owner) Beat() { o.r.header().owner.heartbeat.Add(1) }

// SetOldestLaunch publishes when the oldest launch in flight began; the zero time means none is.
func (o *Owner) SetOldestLaunch(t time.Time) {
	var ns int64
	if !t.IsZero() {
		ns = monotonic() - int64(time.Since(t))
	}
	o.r.header().owner.oldest.Store(ns)
}

// Park waits until a frontend commits rows (with acks: or acknowledges a slab), the supervisor rings, or the timeout or
// MaxPark is over. work is asked after the announcement; if it returns true Park returns at once. It is asked again, for its
// own knowledge, if the time is over, while the announcement still stands: whoever stores after that rings.
// Park reports whether the time ended it and nobody had rung until the announcement was taken back.
func (o *Owner) Park(acks bool, timeout time.Duration, work func() bool) (timedOut bool) {
	bell := &o.r.header().bell.word
	mode := uint32(bellRows)
	if acks {
		mode = bellAcks
	}
	bell.Store(mode) // SYNC(bell): pairs with ringOwner
	at(pointParkAnnounced)
	if work() {
		bell.Store(bellAwake)
		return false
	}
	timedOut = o.r.sleeper().Wait(bell, mode, min(timeout, MaxPark))
	if timedOut {
		work()
	}
	return bell.CompareAndSwap(mode, bellAwake) && timedOut // else a ringer has taken it
}

// Wake makes a Park of this owner return; the executor's callbacks call it from any goroutine.
func (o *Owner) Wake() { o.r.ringOwner(bellRows) }
