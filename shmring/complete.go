package shmring

// Array returns rows [first, first+n) of packed array a of a slab. They are final once Ready has returned true.
func (o *Owner) Array(slab, a, first, n int) []byte { return o.r.array(slab, a, first, n) }

// Scores returns the score bytes of rows [first, first+n) of a slab, to be written by the executor before Complete.
func (o *Owner) Scores(slab, first, n int) []byte { return o.r.scores(slab, first, n) }

// Attempts returns how often an execution of the slab was begun in this life, by any owner.
func (o *Owner) Attempts(slab int) int {
	c := countWord(o.r.slabControl(slab).attempts.Load())
	if c.epoch() != o.slabs[slab].epoch {
		return 0
	}
	return c.count()
}

// Begin counts an attempt; call it before each execution, so that a successor knows which batch was being executed.
func (o *Owner) Begin(slab int) {
	o.r.slabControl(slab).attempts.Store(uint64(packCount(o.slabs[slab].epoch, min(o.Attempts(slab)+1, 1<<24-1))))
	at(pointAttempt)
}

// Wanted reports whether a live frontend has rows in a closed slab whose rows are ready. If none has, nobody reads its scores.
func (o *Owner) Wanted(slab int) bool {
	return o.r.slabControl(slab).pending.Load() != 0 // SYNC(pending): pairs with Frontend.Reserve
}

// Complete publishes a closed slab's outcome and rings its frontends once. From here on the slab is theirs until they ack.
//
// Preconditions:
//   - the executor touches neither the rows nor the scores any more.
func (o *Owner) Complete(slab int, status Status) {
	v, c := &o.slabs[slab], o.r.slabControl(slab)
	if v.phase != PhaseClosed {
		panic("shmring: complete a slab that is " + v.phase.String())
	}
	c.status.Store(uint64(packCount(v.epoch, int(status))))
	at(pointStatus)
	c.done.Store(uint64(v.epoch)) // SYNC(done): pairs with Frontend.Poll
	at(pointDone)
	v.phase, v.since, v.watch = PhaseDone, now(), nil
	o.ring(c.pending.Load()) // SYNC(pending): pairs with Frontend.Reserve; every committed row's bit was set before its commit
}

// Entry is one committed reservation of a slab.
type Entry struct {
	Frontend, Start, Rows int
}

// Entries returns the committed reservations of a closed slab whose rows are ready, in row order.
func (o *Owner) Entries(slab int) []Entry {
	v := &o.slabs[slab]
	table := o.r.entries(slab)
	var list []Entry
	for row := 0; row < v.rows; {
		w := entryWord(table[row].Load())
		n := w.rows()
		if w.epoch() != v.epoch || n < 1 || row+n > v.rows {
			row++ // reserved by a frontend that died before it wrote the entry
			continue
		}
		if w.committed() {
			list = append(list, Entry{Frontend: w.frontend(), Start: row, Rows: n})
		}
		row += n
	}
	return list
}

// Alone returns the outcome of the reservation at row start if it has been executed alone in this life, and how often
// that was tried.
func (o *Owner) Alone(slab, start int) (status Status, finished bool, tries int) {
	v := &o.slabs[slab]
	if w := countWord(o.r.results(slab)[start].Load()); w.epoch() == v.epoch {
		return Status(w.count()), true, 0
	}
	if c := cursorWord(o.r.slabControl(slab).cursor.Load()); c.epoch() == v.epoch && c.row() == start {
		return 0, false, c.tries()
	}
	return 0, false, 0
}

// BeginAlone marks the reservation at row start as being executed alone, so that a successor knows whom a crash is due to.
func (o *Owner) BeginAlone(slab, start int) {
	_, _, tries := o.Alone(slab, start)
	o.r.slabControl(slab).cursor.Store(uint64(packCursor(o.slabs[slab].epoch, start, tries+1)))
	at(pointAttempt)
}

// FinishAlone stores the outcome of the reservation at row start. After the last one, CompleteAlone publishes the slab.
func (o *Owner) FinishAlone(slab, start int, status Status) {
	o.r.results(slab)[start].Store(uint64(packCount(o.slabs[slab].epoch, int(status))))
}

// CompleteAlone publishes a slab whose reservations each have an outcome of their own.
func (o *Owner) CompleteAlone(slab int) { o.Complete(slab, statusMixed) }
