package deviceowner

import (
	"errors"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/shmring"
)

// launch is a place on the device and what runs there.
type launch struct {
	slab  int
	alone bool      // one reservation of a rerun
	began time.Time // zero: the place is free
	batch executor.Batch
	done  func(error) // made once; hands the loop a completion
}

// completion is what a done call leaves for the loop.
type completion struct {
	place int // index into places
	at    time.Time
	err   error
}

// fillDevice starts whatever may start. When a rerun and the queue both have something for the last place, they take turns:
// neither waits for the end of the other.
func (l *Loop) fillDevice() int {
	n := 0
	for l.mayLaunch() {
		var started bool
		if l.rerunHad {
			started = l.launchNext() || l.stepRerun()
		} else {
			started = l.stepRerun() || l.launchNext()
		}
		if !started {
			break
		}
		n++
	}
	return n
}

// launchNext starts the first slab of the queue whose rows are final; one that still waits for a commit, or for the end of
// another rerun, does not hold up those behind it. It reports whether it took one out of the queue.
func (l *Loop) launchNext() bool {
	for at, i := range l.queue {
		tried := l.ring.Attempts(i) > 0 // it failed, or a process died while it executed it
		if !l.ring.Ready(i) || tried && l.rerun != nil {
			continue
		}
		l.queue = append(l.queue[:at], l.queue[at+1:]...)
		l.rerunHad = false
		switch {
		case !l.ring.Wanted(i): // all of it was a dead frontend's
			l.ring.Complete(i, shmring.StatusOK)
		case tried:
			l.startRerun(i)
		default:
			l.launchWhole(i)
		}
		return true
	}
	return false
}

// launchWhole runs a whole slab, padded to the next bucket.
func (l *Loop) launchWhole(i int) {
	p, place := l.place()
	rows := l.ring.Rows(i)
	size := l.prepare(&p.batch, rows)
	for a := range l.geometry.Strides {
		p.batch.Arrays = append(p.batch.Arrays, l.ring.Array(i, a, 0, size))
	}
	p.batch.Scores = l.ring.Scores(i, 0, size)
	l.ring.Begin(i)
	p.slab, p.alone = i, false
	l.start(place)
	if first := l.slabs[i].firstRow; !first.IsZero() { // zero: a predecessor saw it
		l.counters.Observe(stats.StageWait, int64(p.began.Sub(first)))
	}
}

// prepare sets the sizes of a batch of some rows and returns the rows of its bucket.
func (l *Loop) prepare(b *executor.Batch, rows int) int {
	bucket := bucketFor(l.buckets, rows)
	size := l.buckets[bucket]
	b.Bucket, b.Rows, b.Arrays = size, rows, b.Arrays[:0]
	l.counters.Inc(stats.Batches)
	l.counters.Add(stats.BatchRows, uint64(rows))
	l.counters.Add(stats.PaddedRows, uint64(size-rows))
	l.counters.Launch(bucket)
	l.counters.Observe(stats.BatchSize, int64(rows))
	return size
}

// place returns a free place and its index.
func (l *Loop) place() (*launch, int) {
	for i := range l.places {
		if l.places[i].began.IsZero() {
			return &l.places[i], i
		}
	}
	panic("deviceowner: more launches than places")
}

// start hands the batch of a place to the executor. Its memory is the executor's until the completion arrives (I2).
func (l *Loop) start(place int) {
	p := &l.places[place]
	p.began = l.now()
	l.inflight++
	l.publishInflight()
	faults.Hit("owner.launch")
	if err := l.exec.Launch(&p.batch, p.done); err != nil {
		p.done(err)
	}
}

// publishInflight tells the supervisor how many launches are in flight and when the oldest of them began.
func (l *Loop) publishInflight() {
	var oldest time.Time
	for i := range l.places {
		if t := l.places[i].began; !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	l.ring.SetOldestLaunch(oldest)
	l.counters.Set(stats.LaunchesInFlight, int64(l.inflight))
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
	p := &l.places[c.place]
	l.counters.Observe(stats.StageDevice, int64(c.at.Sub(p.began)))
	p.began = time.Time{}
	l.inflight--
	l.publishInflight()
	if c.err != nil {
		l.deviceError(c.err, p)
	}
	switch {
	case errors.Is(c.err, executor.ErrDead):
		l.err = c.err // the slab stays closed: the successor runs it reservation by reservation
	case p.alone:
		l.finishAlone(c.err)
	case c.err != nil:
		// Its attempts are above 0, so it is rerun. It is older than what is queued.
		l.queue = append(l.queue, 0)
		copy(l.queue[1:], l.queue)
		l.queue[0] = p.slab
	default:
		l.ring.Complete(p.slab, shmring.StatusOK)
	}
}
