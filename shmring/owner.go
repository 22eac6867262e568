package shmring

import (
	"fmt"
	"math/bits"
	"os"
	"time"
)

// Phase is where a slab stands in its life. It is derived from the slab's words, never stored.
type Phase uint8

// The phases, in order.
const (
	PhaseFree   Phase = iota // nobody's
	PhaseOpen                // frontends reserve, write and commit
	PhaseClosed              // no more reservations; some may be uncommitted
	PhaseDone                // scores are final; frontends read them
)

func (p Phase) String() string { return [...]string{"free", "open", "closed", "done"}[p] }

// Owner is the device owner's end of the region. Its methods are called from one goroutine.
type Owner struct {
	r           *Region
	bells       Bells
	incarnation uint32
	slabs       []ownerSlab
	deathsSeen  uint64
	nextOpen    int // where to look first for a free slab

	looked  time.Time     // last look for stragglers
	watched time.Duration // time that passed between looks, without this owner's pauses
}

// ownerSlab is what the owner remembers of a slab; everything that matters after its death is in the region.
type ownerSlab struct {
	phase      Phase
	epoch      epoch
	rows       int       // reserved rows, final from PhaseClosed on
	needsGrace bool      // uncommitted rows may be a dead frontend's
	watch      *grace    // snapshot of the writer words since some time after the close
	since      time.Time // when this owner saw the phase begin

	held      Phase         // phase at the last look for stragglers
	heldSince time.Duration // when that look first saw it, in watched time
}

// Owner takes the role of the device owner as the given incarnation and reads where its predecessor stopped.
// It returns ErrRoleTaken while an earlier incarnation was not reaped.
func (r *Region) Owner(incarnation uint32, bells Bells) (*Owner, error) {
	o := &r.header().owner
	old := claimWord(o.claim.Load())
	dead := r.header().supervisor.deadOwner.Load()
	if incarnation <= old.incarnation() || old.incarnation() != dead {
		return nil, fmt.Errorf("take owner role as incarnation %d: incarnation %d (pid %d) has it, %d was reaped: %w",
			incarnation, old.incarnation(), old.pid(), dead, ErrRoleTaken)
	}
	if !o.claim.CompareAndSwap(uint64(old), uint64(packClaim(incarnation, uint32(os.Getpid())))) {
		return nil, fmt.Errorf("take owner role: another process was faster: %w", ErrRoleTaken)
	}
	w := &Owner{r: r, bells: bells, incarnation: incarnation, slabs: make([]ownerSlab, r.g.Slabs)}
	w.takeOver()
	return w, nil
}

// takeOver derives every slab's phase. Closed slabs of a predecessor may hold rows of frontends that died meanwhile, so
// they run through a grace period before they are executed.
func (o *Owner) takeOver() {
	var mask uint64
	since := now()
	for i := range o.slabs {
		phase, s := o.r.phase(i)
		o.slabs[i] = ownerSlab{phase: phase, epoch: s.epoch(), since: since}
		switch phase {
		case PhaseOpen:
			mask |= 1 << i
		case PhaseClosed:
			o.slabs[i].rows = s.reserved()
			o.slabs[i].needsGrace = true
		}
	}
	h := o.r.header()
	h.owner.oldest.Store(0)
	h.owner.openMask.Store(mask)
	h.owner.primary.Store(uint32(bits.TrailingZeros64(mask)) % uint32(o.r.g.Slabs))
	h.bell.word.Store(bellAwake)
	o.deathsSeen = h.supervisor.deaths.Load() - 1 // look at the dead on the first turn
	for i := range o.r.g.Frontends {
		o.bells.Ring(i) // the predecessor may have died between a store and its wake-up
	}
}

// phase derives a slab's phase from its words. On a live region it may be a moment old.
func (r *Region) phase(slab int) (Phase, stateWord) {
	c := r.slabControl(slab)
	s := stateWord(c.state.Load())
	if s.reserved() > r.g.Capacity {
		r.corrupt("slab %d: %s of %d rows", slab, s, r.g.Capacity)
	}
	return c.phase(s), s
}

func (c *slabControl) phase(s stateWord) Phase {
	switch {
	case !s.closed():
		return PhaseOpen
	case epoch(c.done.Load()) != s.epoch():
		return PhaseClosed
	case epoch(c.recycled.Load()) != s.epoch():
		return PhaseDone
	}
	return PhaseFree
}

// Slabs returns the number of slabs.
func (o *Owner) Slabs() int { return len(o.slabs) }

// Phase returns a slab's phase as this owner last made or saw it.
func (o *Owner) Phase(slab int) Phase { return o.slabs[slab].phase }

// Since returns when this owner saw the slab's phase begin.
func (o *Owner) Since(slab int) time.Time { return o.slabs[slab].since }

// Rows returns the rows reserved in a slab: growing while it is open, final once it is closed.
func (o *Owner) Rows(slab int) int {
	if o.slabs[slab].phase != PhaseOpen {
		return o.slabs[slab].rows
	}
	return stateWord(o.r.slabControl(slab).state.Load()).reserved()
}

// Committed returns the committed rows of an open or closed slab.
func (o *Owner) Committed(slab int) int {
	c := countWord(o.r.slabControl(slab).committed.Load())
	if c.epoch() != o.slabs[slab].epoch {
		return 0
	}
	return c.count()
}

// Open begins the next life of a free slab, in rotation, and rings the frontends that wait for room. It returns false
// if no slab is free.
func (o *Owner) Open() (int, bool) {
	n := len(o.slabs)
	for k := range n {
		slab := (o.nextOpen + k) % n
		if o.slabs[slab].phase == PhaseFree {
			o.nextOpen = (slab + 1) % n
			o.open(slab)
			return slab, true
		}
	}
	return 0, false
}

func (o *Owner) open(slab int) {
	c, own := o.r.slabControl(slab), &o.r.header().owner
	e := o.slabs[slab].epoch.next()
	c.committed.Store(uint64(packCount(e, 0)))
	c.attempts.Store(uint64(packCount(e, 0)))
	at(pointOpening)
	c.state.Store(uint64(packState(e, false, 0))) // the slab belongs to the frontends from here on
	at(pointOpened)
	o.slabs[slab] = ownerSlab{phase: PhaseOpen, epoch: e, since: now()}
	if own.openMask.Load() == 0 {
		own.primary.Store(uint32(slab))
	}
	own.openMask.Or(1 << slab) // SYNC(open): pairs with Frontend.take
	at(pointOpenMasked)
	o.ringSpace()
}

// ringSpace wakes the frontends that wait for room.
func (o *Owner) ringSpace() {
	space := &o.r.header().space.mask
	if space.Load() == 0 {
		return
	}
	waiting := space.Swap(0) // SYNC(space): pairs with Frontend.AnnounceSpace
	at(pointSpaceTaken)
	o.ring(waiting)
}

func (o *Owner) ring(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		if i := bits.TrailingZeros64(mask); i < o.r.g.Frontends {
			o.bells.Ring(i)
		}
	}
}

// Close ends the reservations of an open slab and returns its rows. Frontends that reserved go on to commit.
func (o *Owner) Close(slab int) int {
	word := &o.r.slabControl(slab).state
	for {
		s := stateWord(word.Load())
		if s.reserved() > o.r.g.Capacity || s.epoch() != o.slabs[slab].epoch {
			o.r.corrupt("close slab %d epoch %d: %s", slab, o.slabs[slab].epoch, s)
		}
		// A frontend that took the whole slab has closed it already.
		if s.closed() || word.CompareAndSwap(uint64(s), uint64(packState(s.epoch(), true, s.reserved()))) { // SYNC(reserve): pairs with Frontend.take
			at(pointClosed)
			o.closed(slab, s.reserved())
			return s.reserved()
		}
	}
}

func (o *Owner) closed(slab, rows int) {
	v := &o.slabs[slab]
	v.phase, v.rows, v.since = PhaseClosed, rows, now()
	own := &o.r.header().owner
	own.openMask.And(^(uint64(1) << slab))
	if rest := own.openMask.Load(); rest != 0 && own.primary.Load() == uint32(slab) {
		own.primary.Store(uint32(bits.TrailingZeros64(bits.RotateLeft64(rest, -slab))+slab) % 64)
	}
}

// Ready reports whether every row of a closed slab is final: committed, or proven to be a dead frontend's.
func (o *Owner) Ready(slab int) bool {
	v := &o.slabs[slab]
	c := countWord(o.r.slabControl(slab).committed.Load()) // SYNC(commit): pairs with Frontend.Commit
	if c.epoch() != v.epoch || c.count() > v.rows {
		o.r.corrupt("slab %d epoch %d with %d rows: committed is %d rows of epoch %d", slab, v.epoch, v.rows, c.count(), c.epoch())
	}
	if c.count() == v.rows {
		return true
	}
	return v.needsGrace && o.graceOver(slab)
}

// Recycle frees the slabs whose scores were read by everyone and returns how many.
func (o *Owner) Recycle() int {
	freed := 0
	for i := range o.slabs {
		v := &o.slabs[i]
		if v.phase != PhaseDone {
			continue
		}
		c := o.r.slabControl(i)
		if c.pending.Load() != 0 { // SYNC(ack): pairs with Frontend.Poll. SYNC(pending): pairs with Frontend.Reserve
			continue
		}
		c.recycled.Store(uint64(v.epoch))
		v.phase, v.since = PhaseFree, now()
		freed++
		at(pointRecycled)
	}
	return freed
}
