package shmring

import (
	"math/bits"
)

// Reservation is a run of rows in one slab that belongs to the caller until Commit.
type Reservation struct {
	N int // rows granted

	r     *Region
	w     *writer
	slab  int
	start int
	epoch epoch
}

// Array returns packed array a from the first reserved row on: N × stride bytes in shared memory. They hold old data.
// The slice must not be used after Commit.
func (v *Reservation) Array(a int) []byte { return v.r.array(v.slab, a, v.start, v.N) }

// Reserve takes up to n rows of a slab that accepts rows, registers them for c, and returns them; false means that no
// slab has room now (see AnnounceSpace). With whole it takes n rows of an empty slab and closes it, or nothing.
// The caller writes the rows and calls Commit; it must not wait for anything in between.
//
// Preconditions:
//   - 1 <= n, and n <= ChunkRows unless whole, n <= Capacity.
func (f *Frontend) Reserve(n int, whole bool, c Completion, tag int) (Reservation, bool) {
	if n < 1 || n > f.r.g.Capacity {
		panic("shmring: reserve outside 1..capacity")
	}
	w := takeToken(f.writers) // a holder gives it back after one gather, so this wait is short
	w.enter()
	at(pointWriterOdd)
	v, ok := f.take(n, whole)
	if !ok {
		w.leave()
		f.writers <- w
		return Reservation{}, false
	}
	v.r, v.w = f.r, w
	at(pointReserved)
	f.register(&v, c, tag)
	at(pointRegistered)
	pending := &f.r.slabControl(v.slab).pending
	if pending.Load()&f.bit == 0 {
		pending.Or(f.bit) // SYNC(pending): pairs with Owner.Recycle and Owner.Complete
	}
	at(pointPending)
	return v, true
}

// take reserves rows by CAS on the state of an open slab, trying the primary one first.
func (f *Frontend) take(n int, whole bool) (Reservation, bool) {
	o := &f.r.header().owner
	mask := o.openMask.Load() // SYNC(open): pairs with Owner.Open
	if f.r.g.Slabs < 64 {
		mask &= 1<<f.r.g.Slabs - 1
	}
	first := int(o.primary.Load()) % f.r.g.Slabs
	// slabs first.. then 0..first-1
	for _, part := range [2]uint64{mask &^ (1<<first - 1), mask & (1<<first - 1)} {
		for m := part; m != 0; m &= m - 1 {
			if v, ok := f.takeFrom(bits.TrailingZeros64(m), n, whole); ok {
				return v, true
			}
		}
	}
	return Reservation{}, false
}

func (f *Frontend) takeFrom(slab, n int, whole bool) (Reservation, bool) {
	word := &f.r.slabControl(slab).state
	for {
		s := stateWord(word.Load()) // read once, checked, used from this copy only
		if s.closed() {
			return Reservation{}, false
		}
		room := f.r.g.Capacity - s.reserved()
		if room < 0 {
			f.r.corrupt("reserve in slab %d: %s of %d rows", slab, s, f.r.g.Capacity)
		}
		granted := min(n, room)
		if granted == 0 || whole && s.reserved() != 0 {
			return Reservation{}, false
		}
		next := packState(s.epoch(), whole, s.reserved()+granted)
		if word.CompareAndSwap(uint64(s), uint64(next)) { // SYNC(reserve): pairs with Owner.Close
			return Reservation{N: granted, slab: slab, start: s.reserved(), epoch: s.epoch()}, true
		}
	}
}

// register writes the reservation into the slab's table and into this process's book.
func (f *Frontend) register(v *Reservation, c Completion, tag int) {
	f.r.entries(v.slab)[v.start].Store(uint64(packEntry(v.epoch, f.index, false, v.N)))
	b := &f.books[v.slab]
	b.mu.Lock()
	if len(b.entries) == 0 {
		b.epoch = v.epoch
		b.used.Store(true)
	} else if b.epoch != v.epoch {
		b.mu.Unlock()
		f.r.corrupt("register in slab %d: epoch %d beside undelivered ones of epoch %d", v.slab, v.epoch, b.epoch)
	}
	b.entries = append(b.entries, bookEntry{to: c, tag: tag, start: v.start, n: v.N})
	b.mu.Unlock()
}

// Commit makes the rows final: from here on they belong to the owner. It rings the owner if that is parked.
func (f *Frontend) Commit(v *Reservation) {
	// The entry before the count: a counted row always has a committed entry, for a run reservation by reservation.
	f.r.entries(v.slab)[v.start].Store(uint64(packEntry(v.epoch, f.index, true, v.N)))
	at(pointEntryCommitted)
	count := &f.r.slabControl(v.slab).committed
	for {
		c := countWord(count.Load())
		if c.epoch() != v.epoch || c.count()+v.N > f.r.g.Capacity {
			f.r.corrupt("commit %d rows in slab %d epoch %d: committed is %d rows of epoch %d", v.N, v.slab, v.epoch, c.count(), c.epoch())
		}
		if count.CompareAndSwap(uint64(c), uint64(packCount(c.epoch(), c.count()+v.N))) { // SYNC(commit): pairs with Owner.Ready
			break
		}
	}
	at(pointCommitted)
	f.r.ringOwner(bellRows)
	at(pointCommitRung)
	w := v.w
	v.w = nil
	w.leave()
	at(pointWriterEven)
	f.writers <- w
}
