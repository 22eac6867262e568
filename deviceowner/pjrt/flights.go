package pjrt

import (
	"errors"
	"fmt"

	"rankd/deviceowner/executor"
)

// starts is the starter: it starts launches in their order until the executor is closed, and then waits for those in flight.
func (e *Executor) starts() {
	defer e.pin()()
	for l := range e.work {
		tag := <-e.tags
		e.flights[tag] = l
		if over, err := l.runner.start(l.batch.Arrays, l.batch.Scores, tag); over {
			e.land(arrival{tag, err})
		}
	}
	for range e.depth {
		<-e.tags
	}
	e.device.stop()
}

// arrivals is the lander: it takes the ends of batches. One that failed may be followed by a probe of the device, for which those
// behind it must not wait.
func (e *Executor) arrivals() {
	for {
		switch a, ok := e.device.next(); {
		case !ok:
			return
		case a.err == nil:
			e.land(a)
		default:
			e.landAside(a)
		}
	}
}

func (e *Executor) landAside(a arrival) {
	e.workers.Go(func() { e.land(a) })
}

// land ends a launch. Its tag is free only after done, since Close waits for the tags.
func (e *Executor) land(a arrival) {
	l := e.flights[a.tag]
	e.flights[a.tag] = launch{}
	err := e.judge(a.err)
	e.inFlight.Add(-1) // before done, which may launch the next one
	l.done(err)
	e.tags <- a.tag
}

// pin keeps the calling goroutine on a thread of the device's processors if they were chosen: a small program runs on the
// thread that launches it. undo ends that.
func (e *Executor) pin() (undo func()) {
	if !e.threads.changed {
		return func() {}
	}
	undo, err := e.threads.apply()
	if err != nil {
		e.log.Warn("launching thread is not pinned", "error", err.Error())
		return func() {}
	}
	return undo
}

// judge decides what a failed batch means. Plugins report a lost device in different words, so the device is asked instead:
// if its smallest program no longer runs on zeros, it is dead.
func (e *Executor) judge(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("run batch: %w", err)
	if errors.Is(err, executor.ErrDead) { // a cached program that does not work
		e.isDead.Store(true)
		return err
	}
	if !suspicious(err) {
		return err
	}
	if probe := e.probe(); probe != nil {
		e.isDead.Store(true)
		return fmt.Errorf("%w: %w", executor.ErrDead, errors.Join(err, fmt.Errorf("probe device: %w", probe)))
	}
	return err
}

// probe runs the smallest compiled bucket on zeros.
func (e *Executor) probe() error {
	e.mu.Lock()
	bucket := e.smallest
	r := e.runners[bucket]
	e.mu.Unlock()
	zeros, free, err := zeroRows(e.arrays, bucket)
	if err != nil {
		return err
	}
	defer free()
	return r.run(zeros, make([]byte, bucket*e.scoreBytes))
}
