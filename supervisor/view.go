package supervisor

import (
	"fmt"
	"html/template"
	"time"
)

// view is what the page and the text show: the status, the samples and what follows from both.
type view struct {
	*Status
	Now     time.Time
	Samples []Sample // the last minutes, the oldest first
	Nonce   string   // of the page's own style and script
}

// shownSamples is how far back charts go: five minutes.
const shownSamples = 300

func newView(st *Status, samples []Sample, now time.Time) *view {
	return &view{Status: st, Now: now, Samples: samples[max(0, len(samples)-shownSamples):]}
}

// values are one figure of all samples.
func (v *view) values(of func(*Sample) float64) []float64 {
	list := make([]float64, len(v.Samples))
	for i := range v.Samples {
		list[i] = of(&v.Samples[i])
	}
	return list
}

func (v *view) times() []time.Time {
	list := make([]time.Time, len(v.Samples))
	for i := range v.Samples {
		list[i] = v.Samples[i].At
	}
	return list
}

// Charts are those of the page, and the lines of the text.
func (v *view) Charts() []chart {
	var last Sample
	if n := len(v.Samples); n > 0 {
		last = v.Samples[n-1]
	}
	requests := func(s *Sample) float64 { return s.Requests }
	refused := func(s *Sample) float64 { return s.Refused }
	list := []chart{
		{Title: "Rows", Unit: "/s", Now: short(last.Rows) + "/s", Lines: []line{{"rows", "a", v.values(func(s *Sample) float64 { return s.Rows })}}},
		{Title: "Requests", Unit: "/s", Now: short(last.Requests) + "/s", Lines: []line{{"ended", "a", v.values(requests)}, {"refused", "bad", v.values(refused)}}},
		{Title: "Latency", Unit: " ms", Now: fmt.Sprintf("%s / %s ms", short(last.P50), short(last.P99)), Lines: []line{
			{"p50", "a", v.values(func(s *Sample) float64 { return s.P50 })}, {"p99", "b", v.values(func(s *Sample) float64 { return s.P99 })},
		}},
		{Title: "Queue", Unit: " rows", Now: short(float64(last.Queue)) + " rows wait", Lines: []line{{"rows", "a", v.values(func(s *Sample) float64 { return float64(s.Queue) })}}},
		{Title: "Batches", Unit: " rows", Now: short(last.Batch) + " rows each", Lines: []line{{"rows", "a", v.values(func(s *Sample) float64 { return s.Batch })}}},
		{Title: "Processors", Unit: " cores", Now: fmt.Sprintf("%.2f cores busy", last.CPU), Lines: []line{{"cores", "a", v.values(func(s *Sample) float64 { return s.CPU })}}},
	}
	for i := range list {
		list[i].Times = v.times()
	}
	return list
}

// Sizes is the picture of batch sizes.
func (v *view) Sizes() template.HTML { return sizeBars(v.Traffic.BatchSizes) }

// State is the server in one word, and the class of its colour.
func (v *view) State() string {
	if v.Ready {
		return "ready"
	}
	return "not ready"
}

// Outcomes are those that happened at all, in the order of their names.
func (v *view) Outcomes() map[string]uint64 {
	some := map[string]uint64{}
	for name, n := range v.Traffic.Outcomes {
		if n > 0 || name == "ok" {
			some[name] = n
		}
	}
	return some
}
