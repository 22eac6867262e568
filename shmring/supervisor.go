package shmring

import (
	"math/bits"
	"time"
)

// Supervisor is the supervisor's end of the region: what it has learned by reaping children, written where the others
// look. Its methods are called from one goroutine at a time.
type Supervisor struct {
	r     *Region
	bells Bells
}

// Supervisor returns the supervisor's end. There is one supervisor a region: the process that formatted it.
func (r *Region) Supervisor(bells Bells) *Supervisor { return &Supervisor{r: r, bells: bells} }

// MarkDead says that an incarnation of frontend i was reaped: it will never write again.
func (s *Supervisor) MarkDead(i int, incarnation uint32) {
	h := s.r.header()
	if claimWord(s.r.frontendBlock(i).claim.Load()).incarnation() != incarnation {
		return // it died before it took the role, so it has left no traces
	}
	h.dead[i].Store(incarnation)
	at(pointDeadStored)
	h.supervisor.deaths.Add(1) // SYNC(dead): pairs with Owner.HandleDeaths
	s.r.ringOwner(bellRows)
}

// Recovered reports whether no trace of frontend i's last reaped incarnation is left, so that the next one may start.
func (s *Supervisor) Recovered(i int) bool {
	h := s.r.header()
	return h.recovered[i].Load() == h.dead[i].Load() // SYNC(recovered): pairs with Owner.HandleDeaths
}

// MarkOwnerDead says that an incarnation of the device owner was reaped.
func (s *Supervisor) MarkOwnerDead(incarnation uint32) {
	if claimWord(s.r.header().owner.claim.Load()).incarnation() == incarnation {
		s.r.header().supervisor.deadOwner.Store(incarnation)
	}
}

// SetOwnerState publishes what the supervisor knows of the owner and rings everyone.
func (s *Supervisor) SetOwnerState(state OwnerState) {
	s.r.header().supervisor.ownerState.Store(uint32(state))
	s.RingAll()
}

// SetDraining asks the frontends to refuse new requests and rings everyone.
func (s *Supervisor) SetDraining() {
	s.r.header().supervisor.draining.Store(1)
	s.RingAll()
}

// RingAll rings every doorbell. The supervisor does it whenever a child exits, since that child may have died between a
// store and the wake-up that belongs to it. It wakes the owner even if the bell says that it is awake: the dead one may
// have taken the bell and not sent the wake-up, and until then nobody else would.
func (s *Supervisor) RingAll() {
	for i := range s.r.g.Frontends {
		s.bells.Ring(i)
	}
	bell := &s.r.header().bell.word
	bell.Store(bellAwake) // an owner that is about to wait on another value returns at once
	s.r.sleeper().Wake(bell)
}

// OwnerHeartbeat returns the turns of the owner's loop; a parked owner turns at least every MaxPark.
func (s *Supervisor) OwnerHeartbeat() uint64 { return s.r.header().owner.heartbeat.Load() }

// OldestLaunch returns the age of the oldest launch in flight, 0 if none is.
func (s *Supervisor) OldestLaunch() time.Duration {
	began := s.r.header().owner.oldest.Load()
	if began == 0 {
		return 0
	}
	return time.Duration(max(monotonic()-began, 0))
}

// KillRequest returns the incarnation of frontend i that the owner wants killed because it holds others up.
func (s *Supervisor) KillRequest(i int) (incarnation uint32, wanted bool) {
	h := s.r.header()
	incarnation = h.kill[i].Load()
	current := claimWord(s.r.frontendBlock(i).claim.Load()).incarnation()
	return incarnation, incarnation != 0 && incarnation == current && h.dead[i].Load() != incarnation
}

// Idle reports whether no slab holds rows or unread scores: a drained region.
func (s *Supervisor) Idle() bool {
	for i := range s.r.g.Slabs {
		phase, state := s.r.phase(i)
		if phase == PhaseClosed || phase == PhaseOpen && state.reserved() > 0 {
			return false
		}
		if bits.OnesCount64(s.r.slabControl(i).pending.Load()) > 0 {
			return false
		}
	}
	return true
}
