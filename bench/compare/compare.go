package compare

import (
	"context"
	"fmt"
	"math"
	"strings"

	"rankd/bench/load"
)

// Builds of a round.
const (
	Old   = "old"
	New   = "new"
	Again = "old again"
)

// orders are those of the runs in a round; every build comes first, second and last as often as the others.
var orders = [...][3]string{{Old, New, Again}, {New, Again, Old}, {Again, Old, New}, {Again, New, Old}, {Old, Again, New}, {New, Old, Again}}

// Metric is one figure of a run.
type Metric struct {
	Name   string
	Higher bool // is better
	of     func(*load.Result) float64
}

// Metrics are those that builds are compared by.
func Metrics() []Metric {
	return []Metric{
		{"examples/s", true, func(r *load.Result) float64 { return r.ExampleRate }},
		{"server CPU s/1,000 examples", false, func(r *load.Result) float64 {
			if r.Server == nil {
				return 0
			}
			return r.Server.PerThousand
		}},
		{"p50 ms", false, func(r *load.Result) float64 { return r.Latency.P50 }},
		{"p99 ms", false, func(r *load.Result) float64 { return r.Latency.P99 }},
	}
}

// Options say what is compared.
type Options struct {
	Rounds int
	// Run starts a build, loads it, ends it.
	Run func(ctx context.Context, build string, round int) (*load.Result, error)
	// Progress is told what is done; may be nil.
	Progress func(text string)
}

// MinRounds is below how many rounds nothing is claimed: the bootstrap of so few values cannot be wider than their range, so it says
// 95 % where it knows far less. It is also once every order of the runs.
const MinRounds = len(orders)

// Round is the runs of one round, by build.
type Round map[string]*load.Result

// Difference is the comparison by one metric.
type Difference struct {
	Metric  string   `json:"metric"`
	Higher  bool     `json:"higher_is_better"`
	Old     float64  `json:"old"` // geometric means over the rounds
	New     float64  `json:"new"`
	Ratio   Interval `json:"ratio"`  // new to old
	Floor   Interval `json:"floor"`  // old again to old
	Rounds  int      `json:"rounds"` // in which it was measured
	Claimed bool     `json:"claimed"`
}

// Report is a comparison.
type Report struct {
	Schema      int          `json:"schema"` // load.Schema
	OldBinary   string       `json:"old_binary"`
	NewBinary   string       `json:"new_binary"`
	Differences []Difference `json:"differences"`
	Rounds      []Round      `json:"rounds"`
}

// Run makes the rounds. With an error it returns the report of those that were whole (I1).
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Schema: load.Schema}
	for i := range o.Rounds {
		round := Round{}
		for _, build := range orders[i%len(orders)] {
			result, err := o.Run(ctx, build, i)
			if err == nil && result.Mismatches > 0 {
				err = fmt.Errorf("%d replies were wrong: %s", result.Mismatches, result.FirstMismatch)
			}
			if err != nil {
				r.compare()
				return r, fmt.Errorf("compare builds: round %d, %s build: %w", i+1, build, err)
			}
			round[build] = result
		}
		r.Rounds = append(r.Rounds, round)
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("round %d of %d: new build %.3f × the old one's examples/s, old build %.3f × its own", i+1, o.Rounds,
				round[New].ExampleRate/round[Old].ExampleRate, round[Again].ExampleRate/round[Old].ExampleRate))
		}
	}
	r.compare()
	return r, nil
}

// compare computes the differences from the rounds.
func (r *Report) compare() {
	r.Differences = nil
	for _, m := range Metrics() {
		var ratios, floor, old, fresh []float64
		for _, round := range r.Rounds {
			a, b, c := m.of(round[Old]), m.of(round[New]), m.of(round[Again])
			if !(a > 0 && b > 0 && c > 0) {
				continue // not measured
			}
			ratios, floor = append(ratios, b/a), append(floor, c/a)
			old, fresh = append(old, a), append(fresh, b)
		}
		if len(ratios) < 2 {
			continue
		}
		d := Difference{Metric: m.Name, Higher: m.Higher, Old: geometric(old), New: geometric(fresh), Ratio: Bootstrap(ratios), Floor: Bootstrap(floor), Rounds: len(ratios)}
		d.Claimed = d.Rounds >= MinRounds && d.Ratio.Claimed(d.Floor)
		r.Differences = append(r.Differences, d)
	}
}

func geometric(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(list)))
}

// verdict is a difference in words.
func (d *Difference) verdict() string {
	if d.Rounds < MinRounds {
		return fmt.Sprintf("too few rounds for a verdict: got %d, want %d", d.Rounds, MinRounds)
	}
	if !d.Claimed {
		return "no difference that could be told from noise"
	}
	if (d.Ratio.Mean > 1) == d.Higher {
		return "better"
	}
	return "worse"
}

// Summary is the report for people.
func (r *Report) Summary() string {
	var b strings.Builder
	percent := func(i Interval) string {
		return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*(i.Mean-1), 100*(i.Low-1), 100*(i.High-1))
	}
	fmt.Fprintf(&b, "%d rounds, means and 95 %% intervals of new against old, and of old against itself\n", len(r.Rounds))
	fmt.Fprintf(&b, "%-28s %12s %12s  %-26s %-26s %s\n", "", "old", "new", "new against old", "old against itself", "")
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "%-28s %12.4g %12.4g  %-26s %-26s %s\n", d.Metric, d.Old, d.New, percent(d.Ratio), percent(d.Floor), d.verdict())
	}
	limited := 0
	for _, round := range r.Rounds {
		for _, result := range round {
			if result.Client.Limited {
				limited++
			}
		}
	}
	if limited > 0 {
		fmt.Fprintf(&b, "in %d of %d runs the client was the limit: rates say little, CPU times still do\n", limited, 3*len(r.Rounds))
	}
	return b.String()
}
