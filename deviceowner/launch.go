package deviceowner

import (
	"errors"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/shmring"
)

// launchReady starts closed slabs whose rows are final, in the order of their closing; one that still waits for a commit
// does not hold up those behind it.
func (l *Loop) launchReady() int {
	n := 0
	for i := 0; i < len(l.queue) && l.inflight < l.depth; {
		slab := l.queue[i]
		if !l.ring.Ready(slab) {
			i++
			continue
		}
		if l.ring.Attempts(slab) > 0 { // a process died while it executed this one
			if l.rerun != nil {
				i++ // one at a time
				continue
			}
			l.startRerun(slab)
		} else {
			l.launch(slab)
		}
		l.queue = append(l.queue[:i], l.queue[i+1:]...)
		n++
	}
	return n
}

// launch runs a whole slab, padded to the next bucket.
func (l *Loop) launch(slab int) {
	rows := l.ring.Rows(slab)
	if l.ring.Committed(slab) == 0 { // all of it was a dead frontend's
		l.ring.Complete(slab, shmring.StatusOK)
		return
	}
	bucket := bucketFor(l.buckets, rows)
	size := l.buckets[bucket]
	l.ring.Begin(slab)
	place := l.place()
	b := &l.batches[place]
	b.Bucket, b.Rows = size, rows
	b.Arrays = b.Arrays[:0]
	for a := range l.geometry.Strides {
		b.Arrays = append(b.Arrays, l.ring.Array(slab, a, 0, size))
	}
	b.Scores = l.ring.Scores(slab, 0, size)
	l.counters.Inc(stats.Batches)
	l.counters.Add(stats.BatchRows, uint64(rows))
	l.counters.Add(stats.PaddedRows, uint64(size-rows))
	l.counters.Launch(bucket)
	l.counters.Observe(stats.BatchSize, int64(rows))
	l.start(place, slab, false)
}

// place returns a free index for a launch.
func (l *Loop) place() int {
	for i := range l.began {
		if l.began[i].IsZero() {
			return i
		}
	}
	panic("deviceowner: more launches than places")
}

// start hands the batch in place to the executor. Its memory is the executor's until the completion arrives (I2).
func (l *Loop) start(place, slab int, alone bool) {
	l.began[place] = time.Now()
	l.slabOf[place] = slab
	l.inflight++
	l.counters.Set(stats.LaunchesInFlight, int64(l.inflight))
	l.publishOldest()
	faults.Hit("owner.launch")
	done := func(err error) {
		l.done <- completion{place: place, slab: slab, alone: alone, err: err}
		l.ring.Wake()
	}
	if err := l.exec.Launch(&l.batches[place], done); err != nil {
		done(err)
	}
}

func (l *Loop) publishOldest() {
	var oldest time.Time
	for _, t := range l.began {
		if !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	l.ring.SetOldestLaunch(oldest)
}

func (l *Loop) collectAll() int {
	n := 0
	for {
		select {
		case c := <-l.done:
			l.collect(c)
			n++
		default:
			return n
		}
	}
}

// collect publishes the outcome of a finished launch.
func (l *Loop) collect(c completion) {
	l.counters.Observe(stats.StageDevice, int64(time.Since(l.began[c.place])))
	l.began[c.place] = time.Time{}
	l.inflight--
	l.counters.Set(stats.LaunchesInFlight, int64(l.inflight))
	l.publishOldest()
	switch {
	case errors.Is(c.err, executor.ErrDead):
		l.err = c.err // the slab stays closed: the successor runs it reservation by reservation
	case c.alone:
		l.finishAlone(c)
	case c.err != nil:
		l.counters.Inc(stats.DeviceErrors)
		l.queue = append(l.queue, c.slab) // attempts is above 0, so it is rerun
	default:
		l.ring.Complete(c.slab, shmring.StatusOK)
	}
}
