package deviceowner

import (
	"rankd/internal/stats"
	"rankd/shmring"
)

// maxTries is how often a reservation is executed alone by processes that die of it before it is refused. More than one,
// since a process may be killed for another reason at that moment.
const maxTries = 2

// rerun executes a slab reservation by reservation, one at a time. Each goes through memory of the loop's own, since a
// bucket that starts in the middle of a slab could reach beyond its end.
type rerun struct {
	slab    int
	entries []shmring.Entry
	next    int
	waiting bool // a launch is in flight
	arrays  [][]byte
	scores  []byte
}

func (l *Loop) startRerun(i int) {
	r := &rerun{slab: i, entries: l.ring.Entries(i)}
	most := 0
	for _, e := range r.entries {
		most = max(most, e.Rows)
	}
	size := l.buckets[bucketFor(l.buckets, most)]
	for _, stride := range l.geometry.Strides {
		r.arrays = append(r.arrays, shmring.HeapMemory(size*stride))
	}
	r.scores = make([]byte, size*l.geometry.ScoreBytes)
	l.rerun = r
}

// stepRerun starts the next reservation of a rerun, or completes the slab after the last. It reports whether it did.
func (l *Loop) stepRerun() bool {
	r := l.rerun
	if r == nil || r.waiting {
		return false
	}
	for ; r.next < len(r.entries); r.next++ {
		e := r.entries[r.next]
		_, finished, tries := l.ring.Alone(r.slab, e.Start)
		if finished {
			continue
		}
		if tries >= maxTries {
			l.counters.Inc(stats.RefusedCrashers)
			l.ring.FinishAlone(r.slab, e.Start, shmring.StatusDeviceError)
			continue
		}
		l.launchAlone(r, e)
		return true
	}
	l.rerun = nil
	l.ring.CompleteAlone(r.slab)
	return true
}

func (l *Loop) launchAlone(r *rerun, e shmring.Entry) {
	p, place := l.place()
	size := l.prepare(&p.batch, e.Rows)
	for a, stride := range l.geometry.Strides {
		copy(r.arrays[a], l.ring.Array(r.slab, a, e.Start, e.Rows))
		p.batch.Arrays = append(p.batch.Arrays, r.arrays[a][:size*stride])
	}
	p.batch.Scores = r.scores[:size*l.geometry.ScoreBytes]
	l.ring.BeginAlone(r.slab, e.Start)
	p.slab, p.alone = r.slab, true
	r.waiting, l.rerunHad = true, true
	l.start(place)
}

// finishAlone stores the outcome of the reservation that was in flight.
func (l *Loop) finishAlone(err error) {
	r := l.rerun
	e := r.entries[r.next]
	status := shmring.StatusOK
	if err != nil {
		status = shmring.StatusDeviceError
	} else {
		copy(l.ring.Scores(r.slab, e.Start, e.Rows), r.scores)
	}
	l.ring.FinishAlone(r.slab, e.Start, status)
	r.waiting = false
	r.next++
}
