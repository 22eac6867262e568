package compare

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a mean of ratios and where it lies with 95 % confidence. 1 is no difference.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

const (
	resamples  = 10_000
	confidence = 0.95
)

// Bootstrap computes the geometric mean of ratios above 0 and its interval (I2). With fewer than two ratios the interval is
// everything.
func Bootstrap(ratios []float64) Interval {
	if len(ratios) < 2 {
		i := Interval{Mean: math.NaN(), Low: 0, High: math.Inf(1)}
		if len(ratios) == 1 {
			i.Mean = ratios[0]
		}
		return i
	}
	logs := make([]float64, len(ratios))
	sum := 0.0
	for i, r := range ratios {
		logs[i] = math.Log(r)
		sum += logs[i]
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(ratios))))
	means := make([]float64, resamples)
	for k := range means {
		total := 0.0
		for range logs {
			total += logs[rng.IntN(len(logs))]
		}
		means[k] = total / float64(len(logs))
	}
	slices.Sort(means)
	at := func(q float64) float64 { return math.Exp(means[int(q*(resamples-1)+0.5)]) }
	return Interval{Mean: math.Exp(sum / float64(len(logs))), Low: at((1 - confidence) / 2), High: at((1 + confidence) / 2)}
}

// Claimed reports whether a difference may be claimed beside a floor (I3).
func (i Interval) Claimed(floor Interval) bool {
	if !(i.Low > 1 || i.High < 1) {
		return false
	}
	noise := max(math.Abs(math.Log(floor.Low)), math.Abs(math.Log(floor.High)))
	return math.Abs(math.Log(i.Mean)) > noise
}
