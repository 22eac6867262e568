package deviceowner

import (
	"fmt"
	"time"

	"rankd/internal/batching"
)

// commitPatience is how long a closed slab whose rows are not all committed counts as work for the device. A commit takes
// some ten microseconds; a frontend that needs longer is stopped or has lost its processor, and must not keep the others'
// batches from being closed.
const commitPatience = time.Millisecond

// policy decides when an open slab is closed. It is pure: the loop hands it what it knows.
type policy struct {
	kind     batching.Kind
	maxDelay time.Duration
}

// slabState is what a policy may look at.
type slabState struct {
	rows, capacity int
	sinceFirst     time.Duration // since the loop saw the first row
	deviceFree     bool          // a launch would start at once
}

// close reports whether the slab is to be closed now.
func (p policy) close(s slabState) bool {
	switch {
	case s.rows == 0:
		return false
	case s.rows >= s.capacity:
		return true
	}
	switch p.kind {
	case batching.Continuous:
		return s.deviceFree
	case batching.Linger:
		return s.deviceFree && s.sinceFirst >= p.maxDelay
	case batching.Fused:
		return s.sinceFirst >= p.maxDelay
	case batching.Off:
		return true // the frontend that took the rows has closed it
	}
	panic(fmt.Sprintf("deviceowner: close policy %q has no rule", string(p.kind)))
}

// due returns after what time a slab with rows may be closed although nothing else happens, 0 if time alone changes nothing.
func (p policy) due(sinceFirst time.Duration) time.Duration {
	if !p.kind.Timed() {
		return 0
	}
	return max(p.maxDelay-sinceFirst, 0)
}

// bucketFor returns the index of the smallest bucket that holds n rows. Buckets are ascending and the last one holds a slab.
func bucketFor(buckets []int, n int) int {
	for i, b := range buckets {
		if b >= n {
			return i
		}
	}
	return len(buckets) - 1
}

// spinTime is how long the idle loop looks for work before it sleeps: the configured time where every actor has a CPU,
// otherwise nothing, since it would spin on a CPU that a frontend or the executor needs. The actors are the
// frontends and the loop; procs is the number of goroutines of this process that run at once.
func spinTime(configured time.Duration, cpus, procs, frontends int) time.Duration {
	if cpus < frontends+1 || procs < 2 {
		return 0
	}
	return configured
}
