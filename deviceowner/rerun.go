package deviceowner

import (
	"rankd/internal/stats"
	"rankd/shmring"
)

// maxTries is how often a reservation is executed alone by processes that die of it before it is refused. More than one,
// since a process may be killed for another reason at that moment.
const maxTries = 2

// rerun executes a slab reservation by reservation. Each goes through memory of the loop's own, since a bucket that
// starts in the middle of a slab could reach beyond its end.
type rerun struct {
	slab    int
	entries []shmring.Entry
	next    int
	waiting bool // a launch is in flight
	arrays  [][]byte
	scores  []byte
}

func (l *Loop) startRerun(slab int) {
	r := &rerun{slab: slab, entries: l.ring.Entries(slab)}
	size := l.buckets[len(l.buckets)-1]
	for _, stride := range l.geometry.Strides {
		r.arrays = append(r.arrays, shmring.HeapMemory(size*stride))
	}
	r.scores = make([]byte, size*l.geometry.ScoreBytes)
	l.rerun = r
}

// stepRerun starts the next reservation of a rerun, or completes the slab after the last.
func (l *Loop) stepRerun() int {
	r := l.rerun
	if r == nil || r.waiting || l.inflight >= l.depth {
		return 0
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
		return 1
	}
	l.rerun = nil
	l.ring.CompleteAlone(r.slab)
	return 1
}

func (l *Loop) launchAlone(r *rerun, e shmring.Entry) {
	bucket := bucketFor(l.buckets, e.Rows)
	size := l.buckets[bucket]
	place := l.place()
	b := &l.batches[place]
	b.Bucket, b.Rows = size, e.Rows
	b.Arrays = b.Arrays[:0]
	for a, stride := range l.geometry.Strides {
		copy(r.arrays[a], l.ring.Array(r.slab, a, e.Start, e.Rows))
		b.Arrays = append(b.Arrays, r.arrays[a][:size*stride])
	}
	b.Scores = r.scores[:size*l.geometry.ScoreBytes]
	l.counters.Launch(bucket)
	l.ring.BeginAlone(r.slab, e.Start)
	r.waiting = true
	l.start(place, r.slab, true)
}

func (l *Loop) finishAlone(c completion) {
	r := l.rerun
	e := r.entries[r.next]
	status := shmring.StatusOK
	if c.err != nil {
		l.counters.Inc(stats.DeviceErrors)
		status = shmring.StatusDeviceError
	} else {
		copy(l.ring.Scores(r.slab, e.Start, e.Rows), r.scores)
	}
	l.ring.FinishAlone(r.slab, e.Start, status)
	r.waiting = false
	r.next++
}
