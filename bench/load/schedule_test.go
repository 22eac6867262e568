package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

// moments gives those of all parts within some seconds, in order.
func moments(mode string, rate float64, parts int, length time.Duration) []time.Duration {
	var list []time.Duration
	for part := range parts {
		for s := newSchedule(mode, rate, part, parts, 7); s.due < length; s.next() {
			list = append(list, s.due)
		}
	}
	slices.Sort(list)
	return list
}

func TestFixedScheduleIsEven(t *testing.T) {
	for _, parts := range []int{1, 3} {
		list := moments(Fixed, 333, parts, 10*time.Second)
		if len(list) != 3330 {
			t.Errorf("%d parts: got %d moments in 10 s, want 3330", parts, len(list))
		}
		for i, at := range list {
			if want := time.Duration(float64(i) / 333 * 1e9); (at - want).Abs() > 10*time.Nanosecond {
				t.Fatalf("%d parts: moment %d: got %v, want %v", parts, i, at, want)
			}
		}
	}
}

func TestPoissonScheduleHasTheRateAndTheSpread(t *testing.T) {
	for _, parts := range []int{1, 4} {
		list := moments(Poisson, 2000, parts, 50*time.Second)
		n := float64(len(list))
		if math.Abs(n-100_000) > 5*math.Sqrt(100_000) {
			t.Errorf("%d parts: got %v moments, want about 100000", parts, n)
		}
		// Distances of a Poisson process are exponential: their standard deviation is their mean.
		var sum, squares float64
		for i := 1; i < len(list); i++ {
			gap := (list[i] - list[i-1]).Seconds()
			sum += gap
			squares += gap * gap
		}
		mean := sum / (n - 1)
		if spread := math.Sqrt(squares/(n-1)-mean*mean) / mean; math.Abs(spread-1) > 0.02 {
			t.Errorf("%d parts: got a spread of %v means, want 1", parts, spread)
		}
	}
}

func TestSharesAddUp(t *testing.T) {
	for total := range 20 {
		for n := 1; n < 8; n++ {
			sum := 0
			for i := range n {
				sum += share(total, i, n)
			}
			if sum != total {
				t.Errorf("%d dealt out to %d: got %d", total, n, sum)
			}
		}
	}
}
