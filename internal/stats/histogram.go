package stats

import "math/bits"

// Bucket s holds the values in (upper(s-1), upper(s)]: upper ends included, as Prometheus has it. With w = value-1, the
// first four buckets hold one w each; from there on every doubling of w is cut into four.

// sizeSlot is the bucket of v. What exceeds the last bucket (about 37 minutes in nanoseconds) is put there.
func sizeSlot(v uint64) int {
	if v <= 4 {
		return int(max(v, 1)) - 1
	}
	w := v - 1
	e := bits.Len64(w) - 1 // w in [2^e, 2^(e+1)), e >= 2
	return min((e-1)*4+int(w>>(e-2))&3, sizeSlots-1)
}

// upper is the largest value in bucket s.
func upper(s int) uint64 {
	s++ // the smallest w of the next bucket is the largest v of this one
	if s < 4 {
		return uint64(s)
	}
	return uint64(4+s%4) << (s/4 - 1)
}

// Distribution is a histogram read at some time, possibly summed over blocks.
type Distribution struct {
	Count, Sum uint64
	buckets    [sizeSlots]uint64
}

func (d *Distribution) add(h *histogram) {
	d.Sum += h.sum.Load()
	for i := range h.buckets {
		n := h.buckets[i].Load()
		d.buckets[i] += n
		d.Count += n
	}
}

func (d *Distribution) merge(other *Distribution) {
	d.Sum += other.Sum
	d.Count += other.Count
	for i := range d.buckets {
		d.buckets[i] += other.buckets[i]
	}
}

// Since is what was observed between an earlier reading of the same histogram and this one.
func (d Distribution) Since(earlier Distribution) Distribution {
	d.Count -= earlier.Count
	d.Sum -= earlier.Sum
	for i := range d.buckets {
		d.buckets[i] -= earlier.buckets[i]
	}
	return d
}

// Quantile is an upper estimate of the q-quantile, 0 < q <= 1: the end of the bucket that holds it, at most a quarter too
// large. It is 0 when nothing was observed.
func (d Distribution) Quantile(q float64) uint64 {
	rank, seen := uint64(q*float64(d.Count)+0.5), uint64(0)
	rank = max(rank, 1)
	for s, n := range d.buckets {
		if seen += n; seen >= rank && n > 0 {
			return upper(s)
		}
	}
	return 0
}

// AtMost counts the values of at most limit, which must be the end of a bucket.
func (d Distribution) AtMost(limit uint64) uint64 {
	var n uint64
	for s := 0; s < sizeSlots && upper(s) <= limit; s++ {
		n += d.buckets[s]
	}
	return n
}
