package shmring

// Poll delivers the scores of every finished slab in which this process has reservations and acknowledges them. It
// returns the number of reservations delivered. Any goroutine may call it: after a commit, before parking, when the bell rings.
func (f *Frontend) Poll() int {
	delivered := 0
	for slab := range f.books {
		if f.books[slab].used.Load() {
			delivered += f.pollSlab(slab)
		}
	}
	return delivered
}

func (f *Frontend) pollSlab(slab int) int {
	b, s := &f.books[slab], f.r.slabControl(slab)
	done := epoch(s.done.Load()) // SYNC(done): pairs with Owner.Complete
	b.mu.Lock()
	if len(b.entries) == 0 || b.epoch != done {
		b.mu.Unlock()
		return 0
	}
	entries := b.entries
	b.entries, b.spare = b.spare[:0], nil
	b.used.Store(false)
	b.mu.Unlock()
	at(pointTaken)
	// The slab can't be reused before this process's pending bit is clear, so nothing is added to the book meanwhile.
	status := f.slabStatus(slab, done)
	for i := range entries {
		f.deliver(slab, done, status, &entries[i])
		entries[i].to = nil
	}
	if again := epoch(s.done.Load()); again != done {
		f.r.corrupt("deliver slab %d: epoch went from %d to %d before the ack", slab, done, again)
	}
	n := len(entries)
	b.mu.Lock()
	b.spare = entries[:0]
	b.mu.Unlock()
	at(pointDelivered)
	s.pending.And(^f.bit) // SYNC(ack): pairs with Owner.Recycle. After this store the slab may be reused.
	at(pointAcked)
	f.r.ringOwner(bellAcks)
	return n
}

func (f *Frontend) slabStatus(slab int, e epoch) Status {
	w := countWord(f.r.slabControl(slab).status.Load())
	if w.epoch() != e || w.count() > int(statusMixed) {
		f.r.corrupt("deliver slab %d epoch %d: status %d of epoch %d", slab, e, w.count(), w.epoch())
	}
	return Status(w.count())
}

func (f *Frontend) deliver(slab int, e epoch, status Status, v *bookEntry) {
	if status == statusMixed {
		w := countWord(f.r.results(slab)[v.start].Load())
		if w.epoch() != e || w.count() >= int(statusMixed) {
			f.r.corrupt("deliver slab %d row %d epoch %d: result %d of epoch %d", slab, v.start, e, w.count(), w.epoch())
		}
		status = Status(w.count())
	}
	var scores []byte
	if status == StatusOK {
		scores = f.r.scores(slab, v.start, v.n)
	}
	v.to.Complete(v.tag, scores, status)
}

// AnnounceSpace asks the owner to ring this frontend's bell when it next opens a slab. The caller announces, tries
// Reserve once more, and only then waits for its bell:
//
//	frontend                                      owner (Open)
//	F1 space.Or(bit)              SYNC(space)     O1 state open, mask
//	F2 Reserve again; on success stay awake       O2 waiters := space.Swap(0); ring each
//	F3 wait for the bell, at most MaxPark
//
// F1 before F2 and O1 before O2 in one total order: either F2 finds the open slab or O2 finds the bit.
func (f *Frontend) AnnounceSpace() {
	space := &f.r.header().space.mask
	if space.Load()&f.bit == 0 {
		space.Or(f.bit) // SYNC(space): pairs with Owner.Open
	}
	at(pointSpaceAnnounced)
	// An owner that is parked because it lacks a free slab wakes by itself on acks; one that is parked with free slabs
	// has an open one, which may be full: it closes a full slab when it sees it.
	f.r.ringOwner(bellRows)
}

// Outstanding reports whether this process waits for scores.
func (f *Frontend) Outstanding() bool {
	for i := range f.books {
		if f.books[i].used.Load() {
			return true
		}
	}
	return false
}
