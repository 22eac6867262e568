package frontend

import (
	"time"

	"rankd/internal/bell"
	"rankd/shmring"
)

// ring is what the core needs of the shared region.
type ring interface {
	// Reserve takes up to n rows (with whole: n or nothing) for to and fills h; false means that there is no room now.
	Reserve(h *hold, n int, whole bool, to shmring.Completion, tag int) bool
	Commit(h *hold)
	Poll() int
	AnnounceSpace()
	AddPendingRows(n int) int64
	PendingRows() int64
	TotalPendingRows() int64
	OwnerState() shmring.OwnerState
	Draining() bool
	// Wait returns when the bell rings, or after at most the given time; it reports whether it was the bell.
	Wait(atMost time.Duration) (rung bool)
	// Wake makes the current or next Wait return.
	Wake()
}

// hold is a reservation and its rows, one slice a packed array. Its memory belongs to a gatherer and is used again.
type hold struct {
	N      int
	Arrays [][]byte
	res    shmring.Reservation
}

// shmRing is the frontend's role in a region together with its doorbell.
type shmRing struct {
	*shmring.Frontend
	region *shmring.Region
	bell   *bell.Bell
}

func (r *shmRing) Reserve(h *hold, n int, whole bool, to shmring.Completion, tag int) bool {
	v, ok := r.Frontend.Reserve(n, whole, to, tag)
	if !ok {
		return false
	}
	h.res, h.N = v, v.N
	for a := range h.Arrays {
		h.Arrays[a] = h.res.Array(a)
	}
	return true
}

func (r *shmRing) Commit(h *hold) { r.Frontend.Commit(&h.res) }

func (r *shmRing) TotalPendingRows() int64        { return r.region.TotalPendingRows() }
func (r *shmRing) OwnerState() shmring.OwnerState { return r.region.OwnerState() }
func (r *shmRing) Draining() bool                 { return r.region.Draining() }

// Wait counts an error as a ring: the caller looks at the region in any case.
func (r *shmRing) Wait(atMost time.Duration) (rung bool) {
	rung, err := r.bell.Wait(atMost)
	return rung || err != nil
}

func (r *shmRing) Wake() { r.bell.Ring() }
