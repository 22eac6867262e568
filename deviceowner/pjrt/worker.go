package pjrt

import (
	"errors"
	"fmt"

	"rankd/deviceowner/executor"
)

// serve runs launches until the executor is closed. A small program runs on the thread that launches it, so that thread
// keeps to the device's processors when they were chosen.
func (e *Executor) serve() {
	if e.threads.changed {
		undo, err := e.threads.apply()
		if err != nil {
			e.log.Warn("launching thread is not pinned", "error", err.Error())
		} else {
			defer undo()
		}
	}
	for l := range e.work {
		err := e.judge(l.runner.run(l.batch.Arrays, l.batch.Scores))
		e.inFlight.Add(-1) // before done, which may launch the next one
		l.done(err)
	}
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
