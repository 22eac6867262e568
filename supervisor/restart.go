package supervisor

import (
	"time"

	"rankd/internal/config"
)

// backoff spaces out starts that keep dying before READY (I3).
type backoff struct {
	first, limit time.Duration
	deaths       int // in a row, before READY
}

// died gives the wait until the next start after a death.
func (b *backoff) died(wasReady bool) time.Duration {
	if wasReady {
		b.deaths = 0
		return 0
	}
	wait := b.first
	for range b.deaths {
		if wait *= 2; wait >= b.limit {
			break
		}
	}
	b.deaths++
	return min(wait, b.limit)
}

// ready forgets the deaths so far.
func (b *backoff) ready() { b.deaths = 0 }

// verdict is what follows from the end of a child.
type verdict int

const (
	restart verdict = iota // fill the place again
	giveUp                 // the next one would end the same way: end the server, unless that place has worked before
	rebuild                // shared memory is not to be trusted: make it anew
)

// judge decides what a child's exit code means. A child that died of a signal has code -1.
func judge(code int) verdict {
	switch config.ExitCode(code) {
	case config.ExitBadConfig:
		return giveUp
	case config.ExitCorruptRegion:
		return rebuild
	}
	return restart
}
