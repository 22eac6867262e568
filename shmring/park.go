package shmring

import (
	"time"
)

// Sleeper waits on a shared 32-bit word and wakes those who do.
type Sleeper interface {
	// Wait returns when the word no longer holds value, when it is woken, or after the timeout; it may also return for
	// no reason. It reports whether the timeout ended it.
	Wait(word *Word, value uint32, timeout time.Duration) (timedOut bool)
	// Wake ends the waits on the word.
	Wake(word *Word)
}

// Bells rings the doorbells of frontends: an eventfd each in production.
type Bells interface {
	// Ring makes the next or current wait of frontend i return. It never blocks.
	Ring(i int)
}

// What a parked owner waits for.
const (
	bellAwake = 0
	bellRows  = 1 // committed rows
	bellAcks  = 2 // committed rows or a cleared pending bit: it has no free slab
)

// ringOwner wakes the owner if it is parked and waits for event (bellRows or bellAcks).
//
//	owner (Park)                               ringer
//	P1 bell.Store(mode)                        R1 its own store: committed, pending, dead  SYNC(commit|ack|dead)
//	P2 if there is work: Store(awake), run     R2 if bell.Load() >= event &&
//	P3 wait(bell, mode, at most MaxPark)            CAS(bell, awake): wake
//
// P1 before P2 and R1 before R2 in one total order (Go's atomics are sequentially consistent), so either P2 sees the work
// or R2 sees the bell. A ringer killed between R1 and the wake is covered by the bound and by the supervisor's RingAll,
// which wakes the owner whatever the bell says.
func (r *Region) ringOwner(event uint32) {
	bell := &r.header().bell.word
	v := bell.Load() // SYNC(bell): pairs with Owner.Park
	if v == bellAwake || event == bellAcks && v != bellAcks {
		return
	}
	if bell.CompareAndSwap(v, bellAwake) {
		at(pointBellCleared)
		r.sleeper().Wake(bell)
	}
}
