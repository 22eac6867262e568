package deviceowner

import "time"

// policy decides when an open slab is closed. It is pure: the loop hands it what it knows.
type policy struct {
	kind     string
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
	case p.kind == "continuous":
		return s.deviceFree
	case p.kind == "linger":
		return s.deviceFree && s.sinceFirst >= p.maxDelay
	case p.kind == "fused":
		return s.sinceFirst >= p.maxDelay
	}
	return false // off: the frontend closes
}

// timed reports whether the policy closes by time, so that the loop must not sleep past it.
func (p policy) timed() bool { return p.kind == "linger" || p.kind == "fused" }

// bucketFor returns the index of the smallest bucket that holds n rows. Buckets are ascending and the last one holds a slab.
func bucketFor(buckets []int, n int) int {
	for i, b := range buckets {
		if b >= n {
			return i
		}
	}
	return len(buckets) - 1
}
