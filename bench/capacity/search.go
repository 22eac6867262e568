package capacity

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"rankd/bench/load"
)

// Options say how a capacity is searched for.
type Options struct {
	Start     float64 // requests a second that are offered first
	Max       float64 // that are offered at most
	Precision float64 // how close the grid gets: 0.05 is 5 %
	Repeats   int
	// Run offers a rate once.
	Run func(ctx context.Context, rate float64, repeat int) (*load.Result, error)
	// Progress is told what is tried; may be nil.
	Progress func(text string)
}

// Point is a rate and the runs at it.
type Point struct {
	Rate    float64        `json:"rate"`
	Results []*load.Result `json:"results"`
}

// Capacity is what was found for one objective.
type Capacity struct {
	Objective float64 `json:"objective_ms"`
	Rate      float64 `json:"requests_per_s"` // 0: no rate passed
	Examples  float64 `json:"examples_per_s"`
	Failing   float64 `json:"lowest_failing_rate,omitempty"` // above Rate; 0: none failed
	// ClientLimited says that the search ended where the client was the limit: the capacity may be higher.
	ClientLimited bool    `json:"client_limited"`
	P50           float64 `json:"p50_ms"` // at Rate, the median over the repeats
	P99           float64 `json:"p99_ms"`
	PerThousand   float64 `json:"cpu_s_per_1000"` // examples

	next float64 // the lowest rate above Rate that did not pass; 0: there is none
}

// Search finds capacities. Make one for each server.
type Search struct {
	o      Options
	points map[float64]*Point
}

// NewSearch starts with nothing known.
func NewSearch(o Options) (*Search, error) {
	if !(o.Start > 0) || o.Max < o.Start || !(o.Precision > 0) || o.Repeats < 1 || o.Run == nil {
		return nil, fmt.Errorf("search capacity: got start %v, max %v, precision %v, %d repeats; want a start above 0 and at most max, a precision above 0, at least 1 repeat",
			o.Start, o.Max, o.Precision, o.Repeats)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return &Search{o: o, points: map[float64]*Point{}}, nil
}

// Points are all rates that were offered, in their order, but for one at which an interruption came before its first run was whole.
func (s *Search) Points() []Point {
	var list []Point
	for _, p := range s.points {
		if len(p.Results) > 0 {
			list = append(list, *p)
		}
	}
	slices.SortFunc(list, func(a, b Point) int { return cmp.Compare(a.Rate, b.Rate) })
	return list
}

type verdict int

const (
	passed verdict = iota
	failed
	unjudged
)

func (v verdict) String() string {
	return [...]string{"passed", "failed", "the client was the limit"}[v]
}

// Find searches the capacity within an objective.
func (s *Search) Find(ctx context.Context, objective time.Duration) (Capacity, error) {
	limit := float64(objective) / 1e6
	try := func(rate float64) (verdict, error) {
		v, err := s.judge(ctx, rate, limit)
		if err == nil {
			s.o.Progress(fmt.Sprintf("%.0f requests/s within %v: %v", rate, objective, v))
		}
		return v, err
	}
	fails := 0
	for rate := s.round(s.o.Start); fails < enough && rate <= s.o.Max; rate = s.round(2 * rate) {
		v, err := try(rate)
		switch {
		case err != nil:
			return Capacity{Objective: limit}, err
		case v == passed:
			fails = 0
		case v == failed:
			fails++
		default:
			fails = enough // no client gets further
		}
	}
	// Below the start the grid has a bottom: a server that can't do a hundredth of it has no capacity.
	for rate := s.round(s.o.Start / 2); s.best(limit).Rate == 0 && rate > s.o.Start/200; rate = s.round(rate / 2) {
		if _, err := try(rate); err != nil {
			return Capacity{Objective: limit}, err
		}
	}
	for {
		c := s.best(limit)
		if c.Rate == 0 || c.next == 0 || c.next/c.Rate <= 1+s.o.Precision {
			return c, nil
		}
		next := s.round(math.Sqrt(c.next * c.Rate))
		if next <= c.Rate || next >= c.next {
			return c, nil
		}
		if _, err := try(next); err != nil {
			return c, err
		}
	}
}

// enough is how many rates in a row must fail for the search to go no higher: one may fail for a disturbance of the machine.
const enough = 2

func (s *Search) best(objective float64) Capacity { return Best(s.Points(), objective, s.o.Repeats) }

// round keeps three digits, so that rates are the same numbers for every objective (I3).
func (s *Search) round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return math.Round(rate/unit) * unit
}

// judge makes the runs that are still needed (I1, I2).
func (s *Search) judge(ctx context.Context, rate, objective float64) (verdict, error) {
	p := s.points[rate]
	if p == nil {
		p = &Point{Rate: rate}
		s.points[rate] = p
	}
	for {
		if v, known := p.verdict(objective, s.o.Repeats); known {
			return v, nil
		}
		r, err := s.o.Run(ctx, rate, len(p.Results))
		if err != nil {
			return failed, err
		}
		p.Results = append(p.Results, r)
		if r.Mismatches > 0 {
			return failed, fmt.Errorf("offer %.0f requests/s: %d replies were wrong: %s", rate, r.Mismatches, r.FirstMismatch)
		}
	}
}

// verdict is what the runs that were made say, if they are enough (I1, I2).
func (p *Point) verdict(objective float64, repeats int) (v verdict, known bool) {
	good, limited := 0, 0
	for _, r := range p.Results {
		switch {
		case r.Client.Limited:
			limited++
		case !r.Within(objective):
			return failed, true
		default:
			good++
		}
	}
	if good < repeats && limited > 1 {
		return unjudged, true
	}
	return passed, good >= repeats
}

// Best is the capacity that points, in the order of their rates, show: the highest rate that has passed.
func Best(points []Point, objective float64, repeats int) Capacity {
	c := Capacity{Objective: objective}
	for i := range points {
		p := &points[i]
		v, known := p.verdict(objective, repeats)
		switch {
		case !known: // offered for another objective, which it failed early
		case v == passed:
			c = Capacity{Objective: objective}
			c.describe(p)
		case c.next == 0:
			c.next, c.ClientLimited = p.Rate, v == unjudged
			if v == failed {
				c.Failing = p.Rate
			}
		}
	}
	return c
}

// describe fills in the figures at the capacity.
func (c *Capacity) describe(p *Point) {
	c.Rate = p.Rate
	var p50, p99, cpu []float64
	for _, r := range p.Results {
		if r.Client.Limited {
			continue
		}
		c.Examples = p.Rate * float64(r.Rows)
		p50, p99 = append(p50, r.Latency.P50), append(p99, r.Latency.P99)
		if r.Server != nil {
			cpu = append(cpu, r.Server.PerThousand)
		}
	}
	c.P50, c.P99, c.PerThousand = load.Median(p50), load.Median(p99), load.Median(cpu)
}
