package pjrt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/execache"
)

// provenRows is the largest bucket that is run on zeros when it comes from the cache: enough to see that images work on this
// device. Runs of many rows would take longer than everything else that a warm start does.
const provenRows = 16

// unproven is a program from the cache that this process has not run. Its first run is a trial of its entry: if the process
// dies in it, or it fails for another reason than memory, the next process compiles.
type unproven struct {
	runner
	entry  *execache.Entry
	mu     sync.Mutex // held by the first run
	proven atomic.Bool
}

// start waits for the first run to end, and only starts the later ones.
func (p *unproven) start(arrays [][]byte, scores []byte, tag int) (over bool, err error) {
	if p.proven.Load() {
		return p.runner.start(arrays, scores, tag)
	}
	return true, p.run(arrays, scores)
}

func (p *unproven) run(arrays [][]byte, scores []byte) error {
	if p.proven.Load() {
		return p.runner.run(arrays, scores)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proven.Load() {
		return p.runner.run(arrays, scores)
	}
	trial, err := p.entry.Try()
	if err != nil { // without a marker a death would repeat itself
		return fmt.Errorf("%w: run cached executable: %w", executor.ErrDead, err)
	}
	err = p.runner.run(arrays, scores)
	switch {
	case err == nil:
		trial.Accept()
		p.proven.Store(true)
	case suspicious(err):
		trial.Reject()
		err = fmt.Errorf("%w: run cached executable: %w", executor.ErrDead, err)
	default:
		trial.Abandon()
	}
	return err
}
