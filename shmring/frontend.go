package shmring

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// Frontend is the frontend's end of the region: it reserves rows, commits them and delivers their scores. All methods
// are safe for concurrent use by the goroutines of one process.
type Frontend struct {
	r     *Region
	index int
	bit   uint64

	writers chan *writer // free writer tokens
	books   []book       // one a slab
}

// writer is one token. Its word in the region is odd from before a reservation until after its commit.
type writer struct {
	word *word64
}

// enter and leave keep the word's parity; only the holder of the token stores it.
func (w *writer) enter() { w.word.Add(1) } // SYNC(writer): pairs with grace.over
func (w *writer) leave() { w.word.Add(1) } // SYNC(writer): pairs with grace.over

// Completion receives the scores of one reservation.
type Completion interface {
	// Complete is called exactly once for each reservation, from the goroutine that called Poll, unless this process dies.
	// tag is what was handed to Reserve. scores holds rows × ScoreBytes bytes and is valid only during the call; it is
	// nil unless status is StatusOK. Complete must not block.
	Complete(tag int, scores []byte, status Status)
}

// Status is the outcome of a slab or of one reservation.
type Status uint8

// The outcomes.
const (
	StatusOK          Status = iota // the scores are valid
	StatusDeviceError               // the device refused or crashed on these rows
	statusMixed                     // slab only: look at the result word of each reservation
)

// book holds this process's reservations in one slab. It is local memory: it dies with the process, as its callers do.
type book struct {
	used    atomic.Bool // entries is not empty: lets Poll pass by without the lock
	mu      sync.Mutex
	epoch   epoch // life of the slab that the entries belong to
	entries []bookEntry
	spare   []bookEntry // the other buffer, so that delivering allocates nothing
}

type bookEntry struct {
	to            Completion
	tag, start, n int
}

// Frontend takes the role of frontend index as the given incarnation (1, 2, …).
// It returns ErrRoleTaken while an earlier incarnation was not reaped, and ErrNotRecovered while its traces are in the slabs.
func (r *Region) Frontend(index int, incarnation uint32) (*Frontend, error) {
	if index < 0 || index >= r.g.Frontends {
		return nil, fmt.Errorf("take frontend role: index %d, want 0 to %d", index, r.g.Frontends-1)
	}
	h, b := r.header(), r.frontendBlock(index)
	old := claimWord(b.claim.Load())
	dead := h.dead[index].Load()
	switch {
	case incarnation <= old.incarnation():
		return nil, fmt.Errorf("take frontend %d: incarnation %d, want above %d: %w", index, incarnation, old.incarnation(), ErrRoleTaken)
	case old.incarnation() != dead:
		return nil, fmt.Errorf("take frontend %d: incarnation %d (pid %d) still has it: %w", index, old.incarnation(), old.pid(), ErrRoleTaken)
	case h.recovered[index].Load() != dead:
		return nil, fmt.Errorf("take frontend %d: incarnation %d is not cleaned up: %w", index, dead, ErrNotRecovered)
	}
	if !b.claim.CompareAndSwap(uint64(old), uint64(packClaim(incarnation, uint32(os.Getpid())))) {
		return nil, fmt.Errorf("take frontend %d: another process was faster: %w", index, ErrRoleTaken)
	}
	b.pendingRows.Store(0)
	f := &Frontend{
		r: r, index: index, bit: 1 << index,
		writers: make(chan *writer, r.g.Writers),
		books:   make([]book, r.g.Slabs),
	}
	for i := range r.g.Writers {
		w := r.writerWord(index, i)
		if w.Load()%2 == 1 { // left odd by the predecessor; a grace period that saw it odd now sees it changed
			w.Add(1)
		}
		f.writers <- &writer{word: w}
	}
	return f, nil
}

// Index returns the frontend's index.
func (f *Frontend) Index() int { return f.index }

// AddPendingRows adds n, which may be negative, to the rows that this frontend has admitted and not yet answered, and
// returns the new number.
func (f *Frontend) AddPendingRows(n int) int64 {
	return f.r.frontendBlock(f.index).pendingRows.Add(int64(n))
}

// PendingRows returns the rows that this frontend has admitted and not yet answered.
func (f *Frontend) PendingRows() int64 { return f.r.frontendBlock(f.index).pendingRows.Load() }
