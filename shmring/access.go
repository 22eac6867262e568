//go:build !ringsim

package shmring

import (
	"sync/atomic"
	"time"
)

// The words of the region. In a build with the tag ringsim they are wrappers that hand the processor to the simulator
// before each access; here they are the typed atomics themselves.
type (
	// Word is a shared 32-bit word.
	Word      = atomic.Uint32
	word64    = atomic.Uint64
	wordInt64 = atomic.Int64
)

// now reads the clock by which the age of a phase is told.
func now() time.Time { return time.Now() }

// takeToken waits for a free writer token.
func takeToken(free <-chan *writer) *writer { return <-free }
