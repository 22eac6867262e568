package frontend

import (
	"sync"
	"time"
)

// wheelSlots ticks are one lap of the wheel. A later deadline stays in its slot for more than one lap, which costs a look
// a lap; most calls end long before.
const wheelSlots = 256

// wheel holds the deadlines of the open calls: a hashed timer wheel, O(1) to add and to remove, without allocation.
type wheel struct {
	mu    sync.Mutex
	slots [wheelSlots]timerNode // heads of circular lists
	count int
	last  int64         // tick up to which expired has looked
	kick  chan struct{} // a token: the wheel was empty and is not any more
}

// timerNode is a call's place in the wheel. It is part of the call.
type timerNode struct {
	call       *call
	gen        uint64
	tick       int64
	prev, next *timerNode // nil: not in the wheel
}

// timerRef names a call that is to be failed, by object and generation.
type timerRef struct {
	call *call
	gen  uint64
}

func (w *wheel) init() {
	for i := range w.slots {
		s := &w.slots[i]
		s.prev, s.next = s, s
	}
	w.kick = make(chan struct{}, 1)
}

// add puts n into the wheel, to expire at the first tick not before the given time.
//
// Preconditions:
//   - the mutex of n's call is held.
func (w *wheel) add(n *timerNode, at time.Duration) {
	w.mu.Lock()
	n.gen = n.call.gen
	n.tick = max(int64((at+sweepTick-1)/sweepTick), w.last+1) // never in a slot that was just passed
	head := &w.slots[n.tick%wheelSlots]
	n.prev, n.next = head.prev, head
	head.prev.next, head.prev = n, n
	w.count++
	first := w.count == 1
	w.mu.Unlock()
	if first {
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
}

func (w *wheel) remove(n *timerNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.next == nil {
		return
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	w.count--
}

func (w *wheel) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count == 0
}

// expired appends the calls whose deadline is not after now. They stay in the wheel until they are answered, so
// one that a gatherer still holds is listed again a lap later, without effect.
func (w *wheel) expired(due []timerRef, now time.Duration) []timerRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	tick := int64(now / sweepTick)
	from := max(w.last+1, tick-wheelSlots+1) // after a long sleep each slot is looked at once
	for t := from; t <= tick; t++ {
		head := &w.slots[t%wheelSlots]
		for n := head.next; n != head; n = n.next {
			if n.tick <= tick {
				due = append(due, timerRef{n.call, n.gen})
			}
		}
	}
	w.last = tick
	return due
}

// all appends every call in the wheel.
func (w *wheel) all(due []timerRef) []timerRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.slots {
		head := &w.slots[i]
		for n := head.next; n != head; n = n.next {
			due = append(due, timerRef{n.call, n.gen})
		}
	}
	return due
}
