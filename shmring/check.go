package shmring

import (
	"fmt"
	"math/bits"
)

// SlabView is what an onlooker sees of a slab.
type SlabView struct {
	Phase      Phase
	Epoch      uint64
	Reserved   int
	Committed  int
	Pending    uint64 // frontends that have not taken their scores, a bit each
	Attempts   int
	Entries    int // reservations of this life in the table
	CommitSeen int // rows of those entries that say committed
}

// FrontendView is what an onlooker sees of a frontend.
type FrontendView struct {
	Incarnation uint32
	PID         uint32
	Live        bool
	PendingRows int64
	OddWriters  int // writer tokens that are between reservation and commit
}

// View is a snapshot of a region. On a live region its parts are moments apart.
type View struct {
	Geometry         Geometry
	OwnerIncarnation uint32
	OwnerPID         uint32
	OwnerState       OwnerState
	Heartbeat        uint64
	OpenMask         uint64
	SpaceWaiters     uint64
	Draining         bool
	Slabs            []SlabView
	Frontends        []FrontendView
}

// View reads the region without changing it; it works on a hung server and on a dead one's leftovers.
func (r *Region) View() View {
	h := r.header()
	claim := claimWord(h.owner.claim.Load())
	v := View{
		Geometry: r.g, OwnerIncarnation: claim.incarnation(), OwnerPID: claim.pid(), OwnerState: r.OwnerState(),
		Heartbeat: h.owner.heartbeat.Load(), OpenMask: h.owner.openMask.Load(), SpaceWaiters: h.space.mask.Load(),
		Draining: r.Draining(),
	}
	for i := range r.g.Slabs {
		v.Slabs = append(v.Slabs, r.slabView(i))
	}
	for i := range r.g.Frontends {
		b := r.frontendBlock(i)
		c := claimWord(b.claim.Load())
		f := FrontendView{Incarnation: c.incarnation(), PID: c.pid(), Live: !r.deadFrontend(i), PendingRows: b.pendingRows.Load()}
		for w := range r.g.Writers {
			f.OddWriters += int(r.writerWord(i, w).Load() & 1)
		}
		v.Frontends = append(v.Frontends, f)
	}
	return v
}

func (r *Region) slabView(i int) SlabView {
	c := r.slabControl(i)
	s := stateWord(c.state.Load())
	v := SlabView{Phase: c.phase(s), Epoch: uint64(s.epoch()), Reserved: s.reserved(), Pending: c.pending.Load()}
	if n := countWord(c.committed.Load()); n.epoch() == s.epoch() {
		v.Committed = n.count()
	}
	if n := countWord(c.attempts.Load()); n.epoch() == s.epoch() {
		v.Attempts = n.count()
	}
	table := r.entries(i)
	for row := 0; row < min(v.Reserved, r.g.Capacity); {
		w := entryWord(table[row].Load())
		if w.epoch() != s.epoch() || w.rows() < 1 {
			row++
			continue
		}
		v.Entries++
		if w.committed() {
			v.CommitSeen += w.rows()
		}
		row += w.rows()
	}
	return v
}

// Check looks for words that can't be right and returns a line for each. A sound region whose processes are dead or stopped
// gives none, at whatever point they are; of live ones it may give a line for words that changed while it looked. With atRest
// the region must also hold nothing: no rows, no unread scores, no odd writer.
func (r *Region) Check(atRest bool) []string {
	var bad []string
	report := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if got, want := r.header().checksum, r.g.checksum(); got != want {
		report("header: checksum %#x, want %#x", got, want)
	}
	v := r.View()
	if extra := v.OpenMask >> (r.g.Slabs - 1) >> 1; extra != 0 {
		report("owner: open mask %#x names slabs beyond %d", v.OpenMask, r.g.Slabs)
	}
	for i, s := range v.Slabs {
		r.checkSlab(i, s, atRest, report)
	}
	for i, f := range v.Frontends {
		if f.PendingRows < 0 {
			report("frontend %d: %d pending rows", i, f.PendingRows)
		}
		if atRest && f.Live && (f.OddWriters != 0 || f.PendingRows != 0) {
			report("frontend %d: %d writers busy and %d rows pending at rest", i, f.OddWriters, f.PendingRows)
		}
	}
	return bad
}

func (r *Region) checkSlab(i int, s SlabView, atRest bool, report func(string, ...any)) {
	if s.Reserved > r.g.Capacity {
		report("slab %d: %d rows reserved of %d", i, s.Reserved, r.g.Capacity)
	}
	// The view reads state before committed: of a live slab more may be committed than was reserved then.
	if s.Committed > r.g.Capacity || s.Phase != PhaseOpen && s.Committed > s.Reserved {
		report("slab %d: %d rows committed of %d reserved", i, s.Committed, s.Reserved)
	}
	if s.Phase != PhaseOpen && s.CommitSeen > s.Reserved {
		report("slab %d: entries of %d committed rows, %d reserved", i, s.CommitSeen, s.Reserved)
	}
	if r.g.Frontends < MaxFrontends && s.Pending>>r.g.Frontends != 0 {
		report("slab %d: pending mask %#x names frontends beyond %d", i, s.Pending, r.g.Frontends)
	}
	if s.Phase == PhaseFree && s.Pending != 0 {
		report("slab %d: free with %d frontends pending", i, bits.OnesCount64(s.Pending))
	}
	if !atRest {
		return
	}
	if s.Phase == PhaseClosed || s.Phase == PhaseOpen && s.Reserved > 0 || s.Pending != 0 {
		report("slab %d: %s with %d rows and pending mask %#x at rest", i, s.Phase, s.Reserved, s.Pending)
	}
}
