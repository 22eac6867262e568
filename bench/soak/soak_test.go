package soak

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// series is a line with noise, one value a second.
func series(seconds int, mean, perHour, noise float64, seed uint64) []point {
	rng := rand.New(rand.NewPCG(seed, 1))
	var list []point
	for i := range seconds {
		list = append(list, point{float64(i), mean + perHour*float64(i)/3600 + noise*rng.NormFloat64()})
	}
	return list
}

func TestLineIsFound(t *testing.T) {
	f := fit("x", "MiB", series(1800, 100, 60, 5, 1), settle)
	if f.Slope < 57 || f.Slope > 63 || f.Low > 60 || f.High < 60 || !f.Drift || f.Verdict() != "grows" {
		t.Errorf("got %v, want 60 an hour", &f)
	}
	if f := fit("x", "MiB", series(1800, 100, -60, 5, 2), settle); f.Verdict() != "falls" {
		t.Errorf("got %v, want falls", &f)
	}
}

func TestNoiseIsNoDrift(t *testing.T) {
	covered, drifts := 0, 0
	for seed := range uint64(200) {
		f := fit("x", "ms", series(300, 10, 0, 4, seed), settle)
		if f.Low <= 0 && f.High >= 0 {
			covered++
		}
		if f.Drift {
			drifts++
		}
	}
	if covered < 180 || covered > 199 || drifts > 20 {
		t.Errorf("got %d of 200 intervals around zero and %d drifts, want about 190 and no more drifts than the other 10", covered, drifts)
	}
}

func TestI1StartIsNotFitted(t *testing.T) {
	list := series(300, 10, 0, 0.1, 1)
	for i := range 20 {
		list[i].value = 1000
	}
	if f := fit("x", "ms", list, settle); f.Mean > 11 || f.Drift {
		t.Errorf("got %v, want the first seconds left out", &f)
	}
}

func TestShortSeriesHasNoLine(t *testing.T) {
	f := fit("x", "ms", series(30, 10, 0, 0.1, 1), settle)
	if f.Verdict() != "too short for a line" || !strings.Contains(f.String(), "too short") {
		t.Errorf("got %v", &f)
	}
}

func TestStudentIsThatOfTheTables(t *testing.T) {
	for degrees, want := range map[int]float64{4: 2.776, 10: 2.228, 30: 2.042, 1000: 1.962} {
		if got := student(degrees); math.Abs(got-want) > 0.01*want {
			t.Errorf("%d degrees: got %.3f, want %.3f", degrees, got, want)
		}
	}
}

func TestAnalysisHasAllSeries(t *testing.T) {
	f := File{Result: &load.Result{}}
	for i := range 200 {
		f.Samples = append(f.Samples, gauges.Sample{At: float64(i), PendingRows: 100 + float64(i), Calls: 3, RSS: 1 << 30})
		f.Result.Seconds = append(f.Result.Seconds, load.Second{Second: i, OK: 100, P50: 1, P99: 4})
	}
	f.Analyse()
	verdicts := map[string]string{}
	for i := range f.Fits {
		verdicts[f.Fits[i].What] = f.Fits[i].Verdict()
	}
	if len(verdicts) != 7 || verdicts["rows that wait"] != "grows" || verdicts[wholeMemory] != "steady" || verdicts["p99, each second"] != "steady" {
		t.Errorf("got %v\n%s", verdicts, f.Summary())
	}
}

const wholeMemory, halfOfMemory = "memory more than at the start", "the same in the second half"

// TestLeaksAreSeenBesideLargeTables has 6 GiB of resident tables, and noise of 1 MiB.
func TestLeaksAreSeenBesideLargeTables(t *testing.T) {
	for _, v := range []struct {
		name        string
		more        func(second int) float64 // MiB
		whole, half string
	}{
		{"nothing", func(int) float64 { return 0 }, "steady", "steady"},
		{"5 MiB an hour", func(s int) float64 { return 5 * float64(s) / 3600 }, "steady", "steady"},
		{"20 MiB an hour", func(s int) float64 { return 20 * float64(s) / 3600 }, "grows", "grows"},
		{"a step", func(s int) float64 { return 30 * float64(min(s/600, 1)) }, "grows", "steady"},
	} {
		f, noise := File{Result: &load.Result{}}, rand.New(rand.NewPCG(1, 2))
		for i := range 1800 {
			rss := 6144 + v.more(i) + noise.NormFloat64()
			f.Samples = append(f.Samples, gauges.Sample{At: float64(i), RSS: int64(rss * (1 << 20))})
		}
		f.Analyse()
		got := map[string]string{}
		for i := range f.Fits {
			got[f.Fits[i].What] = f.Fits[i].Verdict()
		}
		if got[wholeMemory] != v.whole || got[halfOfMemory] != v.half {
			t.Errorf("%s: got %s and %s, want %s and %s", v.name, got[wholeMemory], got[halfOfMemory], v.whole, v.half)
		}
	}
}
