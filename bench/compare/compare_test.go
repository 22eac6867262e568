package compare

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rankd/bench/load"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// builds gives runs of two builds whose rates have noise, of which some is common to a round.
func builds(speedup, noise float64) Options {
	rng := rand.New(rand.NewPCG(1, 2))
	common, at := 1.0, -1
	return Options{Rounds: 24, Run: func(_ context.Context, build string, round int) (*load.Result, error) {
		if round != at {
			common, at = 1+rng.Float64(), round
		}
		rate := 1000 * common * math.Exp(noise*rng.NormFloat64())
		if build == New {
			rate *= speedup
		}
		return &load.Result{ExampleRate: rate, Server: &load.Server{PerThousand: 1000 / rate}, Latency: load.Latency{P50: 1, P99: 2}}, nil
	}}
}

func TestDifferencesAreFoundInspiteOfNoiseThatBothHave(t *testing.T) {
	r, err := Run(context.Background(), builds(1.05, 0.01))
	if err != nil {
		t.Fatal(err)
	}
	d := r.Differences[0]
	if !d.Claimed || math.Abs(d.Ratio.Mean-1.05) > 0.01 || d.Ratio.Low > 1.05 || d.Ratio.High < 1.05 {
		t.Errorf("got %+v, want 1.05 claimed", d)
	}
	if cpu := r.Differences[1]; !cpu.Claimed || cpu.verdict() != "better" {
		t.Errorf("got %+v, want less CPU claimed as better", cpu)
	}
	if p50 := r.Differences[2]; p50.Claimed {
		t.Errorf("got %+v, want nothing claimed of equal figures", p50)
	}
	if text := r.Summary(); strings.Count(text, "better") != 2 {
		t.Errorf("got %s", text)
	}
}

func TestI3NoiseIsNotClaimed(t *testing.T) {
	claimed := 0
	for seed := range 40 {
		o := builds(1, 0.05)
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		o.Run = func(context.Context, string, int) (*load.Result, error) {
			return &load.Result{ExampleRate: math.Exp(0.05 * rng.NormFloat64()), Latency: load.Latency{P50: 1, P99: 1}}, nil
		}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Differences[0].Claimed {
			claimed++
		}
	}
	if claimed > 4 {
		t.Errorf("got %d claims in 40 comparisons of a build with itself, want at most one in ten", claimed)
	}
}

func TestI1RoundsThatAreNotWholeAreNotUsed(t *testing.T) {
	o := builds(1, 0)
	inner, n := o.Run, 0
	o.Run = func(ctx context.Context, build string, round int) (*load.Result, error) {
		if n++; n == 8 {
			return nil, errors.New("gone")
		}
		return inner(ctx, build, round)
	}
	r, err := Run(context.Background(), o)
	if err == nil || len(r.Rounds) != 2 || len(r.Differences) != 4 {
		t.Errorf("got %v and %d rounds, want an error and the 2 whole ones", err, len(r.Rounds))
	}
}

func TestI4FewRoundsHaveNoVerdict(t *testing.T) {
	for rounds, want := range map[int]bool{2: false, MinRounds - 1: false, MinRounds: true} {
		o := builds(0.5, 0.001) // half as fast: as clear as can be
		o.Rounds = rounds
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		few := strings.Contains(r.Summary(), "too few rounds for a verdict")
		if d := r.Differences[0]; d.Claimed != want || few == want || d.Rounds != rounds || strings.Contains(r.Summary(), "worse") != want {
			t.Errorf("%d rounds: got %+v, want claimed %v\n%s", rounds, d, want, r.Summary())
		}
	}
}

func TestI2IntervalIsReproducible(t *testing.T) {
	ratios := []float64{1.1, 0.9, 1.3, 1.02, 1.2}
	a, b := Bootstrap(ratios), Bootstrap(ratios)
	if a != b || !(a.Low < a.Mean && a.Mean < a.High) {
		t.Errorf("got %+v and %+v", a, b)
	}
	if one := Bootstrap([]float64{1.5}); one.Claimed(Interval{1, 1, 1}) {
		t.Error("a single ratio: got a claim")
	}
}

func TestEveryBuildIsAtEveryPlaceEquallyOften(t *testing.T) {
	var at [3]map[string]int
	for _, o := range orders {
		for i, b := range o {
			if at[i] == nil {
				at[i] = map[string]int{}
			}
			at[i][b]++
		}
	}
	for i := range at {
		if at[i][Old] != 2 || at[i][New] != 2 || at[i][Again] != 2 {
			t.Errorf("place %d: got %v", i, at[i])
		}
	}
}
