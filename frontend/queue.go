package frontend

import (
	"sync"
	"sync/atomic"
)

// waitQueue is the FIFO of calls that have rows left for the gather workers. It does not grow by itself: every call in it
// was admitted, so the caps on rows and bytes bound it.
type waitQueue struct {
	mu     sync.Mutex
	more   sync.Cond
	head   *call // linked by call.link
	tail   *call
	closed bool

	calls  atomic.Int64 // calls that have rows left, also while a worker holds them
	rows   atomic.Int64 // rows left in them
	hungry atomic.Int64 // of the calls, those that found no room
}

func (q *waitQueue) init() { q.more.L = &q.mu }

// entered counts a call that is about to be pushed for the first time.
func (q *waitQueue) entered(rows int, hungry bool) {
	q.calls.Add(1)
	q.rows.Add(int64(rows))
	if hungry {
		q.hungry.Add(1)
	}
}

func (q *waitQueue) took(rows int) { q.rows.Add(-int64(rows)) }

// left counts a call out, with the rows that nobody took.
func (q *waitQueue) left(rows int, hungry bool) {
	q.calls.Add(-1)
	q.rows.Add(-int64(rows))
	if hungry {
		q.hungry.Add(-1)
	}
}

func (q *waitQueue) load() (calls, rows int64) { return q.calls.Load(), q.rows.Load() }

func (q *waitQueue) push(k *call) {
	q.mu.Lock()
	k.link = nil
	if q.tail == nil {
		q.head = k
	} else {
		q.tail.link = k
	}
	q.tail = k
	q.mu.Unlock()
	q.more.Signal()
}

// pop waits for a call. It returns nil when the queue is closed and empty.
func (q *waitQueue) pop() *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == nil {
		if q.closed {
			return nil
		}
		q.more.Wait()
	}
	k := q.head
	q.head, k.link = k.link, nil
	if q.head == nil {
		q.tail = nil
	}
	return k
}

func (q *waitQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Broadcast()
}

// spaceGate is where gather workers sleep while the region has no room.
type spaceGate struct {
	mu      sync.Mutex
	opened  sync.Cond
	gen     uint64
	blocked atomic.Int64 // workers that have a chunk and no room for it
}

func (g *spaceGate) init() { g.opened.L = &g.mu }

// generation is what wait compares with: read it before the last look at the region.
func (g *spaceGate) generation() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gen
}

// wait returns when open was called after generation returned seen.
func (g *spaceGate) wait(seen uint64) {
	g.mu.Lock()
	for g.gen == seen {
		g.opened.Wait()
	}
	g.mu.Unlock()
}

// open wakes all that wait: there may be room, or their call has failed.
func (g *spaceGate) open() {
	g.mu.Lock()
	g.gen++
	g.mu.Unlock()
	g.opened.Broadcast()
}
