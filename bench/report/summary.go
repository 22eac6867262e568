package report

import (
	"rankd/bench/ablation"
	"rankd/bench/load"
	"rankd/bench/soak"
)

// Summary is the form of summary.json. Figures that were not measured are null there and 0 here.
type Summary struct {
	Schema    int       `json:"schema"`
	Simulated bool      `json:"simulated_accelerator"`
	Workload  string    `json:"workload"`
	Figures   []Figures `json:"figures"`

	// Of rankd alone; left out where they were not measured.
	PricePerHour float64           `json:"price_per_hour,omitempty"`
	Capacity     []CapacitySummary `json:"capacity,omitempty"`
	Overload     []OverloadSummary `json:"overload,omitempty"`
	Soak         *SoakSummary      `json:"soak,omitempty"`
	Ablations    []AblationSummary `json:"ablations,omitempty"`
}

// CapacitySummary is what one server can be offered.
type CapacitySummary struct {
	Server     string            `json:"server"`
	Capacities []CapacityFigures `json:"capacities"`
}

// OverloadSummary is one overload on purpose.
type OverloadSummary struct {
	Scenario  string       `json:"scenario"`
	Offered   float64      `json:"offered_requests_per_s"`
	Timed     uint64       `json:"timed"`
	OK        uint64       `json:"ok"`
	NoReply   uint64       `json:"no_reply"`
	Errors    []load.Error `json:"errors,omitempty"`
	Latency   load.Latency `json:"latency_ms"`
	Pending   float64      `json:"rows_waiting_at_most"`
	MemoryMiB []float64    `json:"memory_mib"` // start, peak, end
	Recovered bool         `json:"nothing_lost_afterwards"`
}

// SoakSummary is a steady load over a long time.
type SoakSummary struct {
	Minutes float64      `json:"minutes"`
	Rate    float64      `json:"requests_per_s"`
	Timed   uint64       `json:"timed"`
	OK      uint64       `json:"ok"`
	Latency load.Latency `json:"latency_ms"`
	Fits    []soak.Fit   `json:"fits"`
}

// AblationSummary is one setting at one load, medians over its repeats.
type AblationSummary struct {
	Table       string  `json:"table"`
	Setting     string  `json:"setting"`
	Callers     int     `json:"callers"`
	Rows        int     `json:"examples_per_request"`
	Examples    float64 `json:"examples_per_s"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	PerThousand float64 `json:"cpu_s_per_1000"`
	MemoryMiB   float64 `json:"memory_mib,omitempty"`
}

// Summary is the figures of the results.
func (r *Results) Summary() *Summary {
	s := &Summary{Schema: load.Schema, Simulated: r.Simulated, Workload: r.Workload, Figures: r.Figures(), PricePerHour: r.Price}
	for i := range r.Capacity {
		x := CapacitySummary{Server: r.Capacity[i].Name}
		for _, c := range r.Capacity[i].Capacities {
			x.Capacities = append(x.Capacities, CapacityFigures{c})
		}
		s.Capacity = append(s.Capacity, x)
	}
	if r.Overload != nil {
		for i := range r.Overload.Scenarios {
			x := &r.Overload.Scenarios[i]
			o := OverloadSummary{
				Scenario: x.Name, Offered: x.Result.Rate, Timed: x.Result.Timed, OK: x.Result.OK, NoReply: x.Result.NoReply,
				Errors: x.Result.Errors, Latency: x.Result.Latency, Pending: x.Peak().PendingRows, Recovered: x.Recovered(),
			}
			for _, m := range x.Memory {
				o.MemoryMiB = append(o.MemoryMiB, mib(m.Bytes()))
			}
			s.Overload = append(s.Overload, o)
		}
	}
	if r.Soak != nil {
		x := r.Soak.Result
		s.Soak = &SoakSummary{r.Soak.Minutes, x.Rate, x.Timed, x.OK, x.Latency, r.Soak.Fits}
	}
	if r.Ablations != nil {
		s.Ablations = settings(r.Ablations)
	}
	return s
}

func settings(f *ablation.File) (list []AblationSummary) {
	for _, t := range f.Tables {
		for i := range t.Settings {
			x := &t.Settings[i]
			for _, l := range t.Loads {
				runs := x.Of(l)
				if len(runs) == 0 {
					continue
				}
				list = append(list, AblationSummary{
					t.Name, x.Name, l.Callers, l.Rows, load.MedianOf(runs, ablation.Rate), load.MedianOf(runs, ablation.P50),
					load.MedianOf(runs, ablation.P99), load.MedianOf(runs, ablation.PerThousand), x.MemoryMiB,
				})
			}
		}
	}
	return list
}
