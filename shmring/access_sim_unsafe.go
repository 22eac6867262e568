//go:build ringsim

package shmring

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// simulation is what a simulator puts in the place of the machine. Its actors run one at a time, and each access to a
// shared word is preceded by touch, where the simulator may run the others first, or end the actor. An interleaving of
// whole accesses is all that can be seen by programs that use sequentially consistent atomics, as Go's are, so nothing
// that real processors do is left out; the plain bytes of rows and scores are not interleaved more finely than the test's
// own reads and writes of them.
type simulation interface {
	touch(word unsafe.Pointer, write bool)
	reach(p syncPoint)
	await(ready func() bool)
	now() time.Time
}

// simulated is the running simulation; nil: none, and the build behaves like any other.
var simulated simulation

func at(p syncPoint) {
	if simulated != nil {
		simulated.reach(p)
	}
}

func touch(word unsafe.Pointer, write bool) {
	if simulated != nil {
		simulated.touch(word, write)
	}
}

func now() time.Time {
	if simulated != nil {
		return simulated.now()
	}
	return time.Now()
}

func takeToken(free <-chan *writer) *writer {
	if simulated != nil {
		simulated.await(func() bool { return len(free) > 0 })
	}
	return <-free
}

// Word is a shared 32-bit word.
type Word struct{ v atomic.Uint32 }

func (w *Word) Load() uint32   { touch(unsafe.Pointer(w), false); return w.v.Load() }
func (w *Word) Store(n uint32) { touch(unsafe.Pointer(w), true); w.v.Store(n) }
func (w *Word) CompareAndSwap(old, new uint32) bool {
	touch(unsafe.Pointer(w), true)
	return w.v.CompareAndSwap(old, new)
}

type word64 struct{ v atomic.Uint64 }

func (w *word64) Load() uint64           { touch(unsafe.Pointer(w), false); return w.v.Load() }
func (w *word64) Store(n uint64)         { touch(unsafe.Pointer(w), true); w.v.Store(n) }
func (w *word64) Add(n uint64) uint64    { touch(unsafe.Pointer(w), true); return w.v.Add(n) }
func (w *word64) And(mask uint64) uint64 { touch(unsafe.Pointer(w), true); return w.v.And(mask) }
func (w *word64) Or(mask uint64) uint64  { touch(unsafe.Pointer(w), true); return w.v.Or(mask) }
func (w *word64) Swap(n uint64) uint64   { touch(unsafe.Pointer(w), true); return w.v.Swap(n) }
func (w *word64) CompareAndSwap(old, new uint64) bool {
	touch(unsafe.Pointer(w), true)
	return w.v.CompareAndSwap(old, new)
}

type wordInt64 struct{ v atomic.Int64 }

func (w *wordInt64) Load() int64       { touch(unsafe.Pointer(w), false); return w.v.Load() }
func (w *wordInt64) Store(n int64)     { touch(unsafe.Pointer(w), true); w.v.Store(n) }
func (w *wordInt64) Add(n int64) int64 { touch(unsafe.Pointer(w), true); return w.v.Add(n) }
