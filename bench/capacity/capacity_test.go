package capacity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rankd/bench/load"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// machine is a server with a formula for its latency.
type machine struct {
	latency func(rate float64, repeat int) float64
	client  float64 // the client is the limit above this rate
	runs    map[float64]int
}

func (m *machine) run(_ context.Context, rate float64, repeat int) (*load.Result, error) {
	m.runs[rate]++
	l := m.latency(rate, repeat)
	r := &load.Result{Schema: load.Schema, Rows: 2, Timed: 100, OK: 100, Latency: load.Latency{P50: l / 2, P99: l, Max: l}}
	r.Client.Limited = m.client > 0 && rate > m.client
	return r, nil
}

func search(t *testing.T, m *machine) *Search {
	t.Helper()
	m.runs = map[float64]int{}
	s, err := NewSearch(Options{Start: 100, Max: 1e6, Precision: 0.05, Repeats: 3, Run: m.run})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// queue is a latency that grows without bound towards a rate.
func queue(most float64) func(float64, int) float64 {
	return func(rate float64, _ int) float64 {
		if rate >= most {
			return 1e5
		}
		return 5 / (1 - rate/most)
	}
}

func TestCapacityIsFoundForEveryObjective(t *testing.T) {
	m := &machine{latency: queue(5000)}
	s := search(t, m)
	for objective, want := range map[time.Duration]float64{time.Second: 4975, 20 * time.Millisecond: 3750} {
		c, err := s.Find(context.Background(), objective)
		if err != nil {
			t.Fatal(err)
		}
		if c.Rate > want || c.Rate < want*0.93 || c.Failing < want || c.ClientLimited || c.Examples != 2*c.Rate {
			t.Errorf("within %v: got %+v, want %v", objective, c, want)
		}
	}
	t.Run("I3/no rate is measured twice", func(t *testing.T) {
		for rate, n := range m.runs {
			if n > 3 {
				t.Errorf("%v requests/s: got %d runs, want at most 3", rate, n)
			}
		}
	})
}

func TestI1OneRepeatThatFailsDecides(t *testing.T) {
	m := &machine{latency: func(rate float64, repeat int) float64 {
		if rate > 1000 && repeat == 2 {
			return 50
		}
		return 1
	}}
	c, err := search(t, m).Find(context.Background(), 20*time.Millisecond)
	if err != nil || c.Rate > 1000 || c.Rate < 930 {
		t.Errorf("got %+v, %v, want 1000", c, err)
	}
}

// A machine that stops for a moment at a low rate says nothing about higher ones.
func TestOneDisturbedRateDoesNotEndTheSearch(t *testing.T) {
	even := queue(5000)
	m := &machine{latency: func(rate float64, repeat int) float64 {
		if rate == 100 && repeat == 1 || rate == 800 && repeat == 0 {
			return 50
		}
		return even(rate, repeat)
	}}
	s := search(t, m)
	c, err := s.Find(context.Background(), 20*time.Millisecond)
	if err != nil || c.Rate > 3750 || c.Rate < 3750*0.93 || c.Failing < 3750 {
		t.Errorf("got %+v, %v, want 3750", c, err)
	}
	if again := Best(s.Points(), 20, 3); again != c {
		t.Errorf("the same points: got %+v, want %+v", again, c)
	}
	if few := Best(s.Points(), 20, 4); few.Rate != 0 {
		t.Errorf("fewer repeats than are wanted: got %+v, want none", few)
	}
}

func TestI2ClientThatIsTheLimitDecidesNothing(t *testing.T) {
	m := &machine{latency: func(float64, int) float64 { return 1 }, client: 1500}
	c, err := search(t, m).Find(context.Background(), 20*time.Millisecond)
	if err != nil || !c.ClientLimited || c.Rate > 1500 || c.Rate < 1400 || c.Failing != 0 {
		t.Errorf("got %+v, %v, want at least some 1500 and a note", c, err)
	}
	for rate, n := range m.runs {
		if rate > 1500 && n != 2 {
			t.Errorf("%v requests/s: got %d runs, want 2", rate, n)
		}
	}
}

func TestServerThatIsTooSlowHasNoCapacity(t *testing.T) {
	c, err := search(t, &machine{latency: func(float64, int) float64 { return 100 }}).Find(context.Background(), 20*time.Millisecond)
	if err != nil || c.Rate != 0 {
		t.Errorf("got %+v, %v, want none", c, err)
	}
	c, err = search(t, &machine{latency: queue(30)}).Find(context.Background(), 20*time.Millisecond)
	if err != nil || c.Rate > 22.5 || c.Rate < 20 {
		t.Errorf("got %+v, %v, want 22.5, which is below the start", c, err)
	}
}

func TestSearchEndsAtTheHighestRate(t *testing.T) {
	s := search(t, &machine{latency: func(float64, int) float64 { return 1 }})
	s.o.Max = 1000
	c, err := s.Find(context.Background(), time.Second)
	if err != nil || c.Rate != 800 || c.Failing != 0 {
		t.Errorf("got %+v, %v, want 800, the last of the grid below 1000", c, err)
	}
	f := NewFile(3.6)
	f.Servers = []Server{{Name: "a", Capacities: []Capacity{c}, Points: s.Points()}}
	if text := f.Summary(); !strings.Contains(text, "1.25 a million") {
		t.Errorf("got %s, want the cost of a million requests", text)
	}
}

func TestWrongReplyEndsTheSearch(t *testing.T) {
	s := search(t, &machine{})
	s.o.Run = func(context.Context, float64, int) (*load.Result, error) {
		return &load.Result{Timed: 1, Mismatches: 1, FirstMismatch: "row 0"}, nil
	}
	if _, err := s.Find(context.Background(), time.Second); err == nil || !strings.Contains(err.Error(), "row 0") {
		t.Errorf("got %v, want an error about the wrong reply", err)
	}
	s = search(t, &machine{})
	s.o.Run = func(context.Context, float64, int) (*load.Result, error) { return nil, errors.New("gone") }
	if _, err := s.Find(context.Background(), time.Second); err == nil {
		t.Error("a run that fails: got no error")
	}
}

func TestServerWithoutAnyRateIsAnError(t *testing.T) {
	f := File{Servers: []Server{{Name: "good", Capacities: []Capacity{{Rate: 10}, {}}}}}
	if err := f.Without(); err != nil {
		t.Errorf("one objective was kept: got %v, want no error", err)
	}
	f.Servers = append(f.Servers, Server{Name: "bad", Capacities: []Capacity{{}, {}}})
	if err := f.Without(); err == nil || !strings.Contains(err.Error(), "bad: no rate passed") || strings.Contains(err.Error(), "good") {
		t.Errorf("got %v, want an error that names the server without a rate", err)
	}
}

func TestRateWithoutAWholeRunIsNoPoint(t *testing.T) {
	m := &machine{latency: func(float64, int) float64 { return 1 }}
	s := search(t, m)
	whole := s.o.Run
	s.o.Run = func(ctx context.Context, rate float64, repeat int) (*load.Result, error) {
		if rate > 100 {
			return nil, context.Canceled
		}
		return whole(ctx, rate, repeat)
	}
	if _, err := s.Find(context.Background(), time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the interruption", err)
	}
	if p := s.Points(); len(p) != 1 || p[0].Rate != 100 {
		t.Errorf("got %+v, want the rate 100 alone", p)
	}
}
