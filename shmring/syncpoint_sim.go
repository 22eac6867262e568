//go:build ringsim

package shmring

// yield is set by the simulation: it hands the processor to the scheduler, which may never hand it back.
var yield func(syncPoint)

// at marks a sync point; the simulation decides there who runs next.
func at(p syncPoint) {
	if yield != nil {
		yield(p)
	}
}
