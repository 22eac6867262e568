package load

import (
	"math/rand/v2"
	"time"
)

// schedule gives the moments at which a worker's requests are due, without end.
type schedule struct {
	due  time.Duration
	gap  float64    // nanoseconds on average
	rng  *rand.Rand // nil: fixed distances
	rest float64    // of nanoseconds, so that rates are right in the long run
}

// newSchedule gives worker number part of parts its share: a Poisson process is made of independent ones; fixed moments are dealt out.
func newSchedule(mode string, rate float64, part, parts int, seed uint64) schedule {
	s := schedule{gap: 1e9 * float64(parts) / rate}
	if mode == Poisson {
		s.rng = rand.New(rand.NewPCG(seed, uint64(part)))
		s.next()
		return s
	}
	s.due = time.Duration(1e9 * float64(part) / rate)
	return s
}

// next moves due to the next moment.
func (s *schedule) next() {
	gap := s.gap
	if s.rng != nil {
		gap *= s.rng.ExpFloat64()
	}
	gap += s.rest
	whole := time.Duration(gap)
	s.rest = gap - float64(whole)
	s.due += whole
}
