package report

import (
	"cmp"
	"maps"
	"slices"

	"rankd/bench/load"
)

// Figures are what an arm did at one number of examples a request. Rates are examples a second; 0 means that there is no such point.
type Figures struct {
	Arm           string  `json:"arm"`
	Variant       string  `json:"variant,omitempty"` // the best one at this size
	Rows          int     `json:"examples_per_request"`
	Within10      float64 `json:"throughput_p99_10ms"`
	Within20      float64 `json:"throughput_p99_20ms"`
	Within50      float64 `json:"throughput_p99_50ms"`
	Peak          float64 `json:"peak"`
	PeakCallers   float64 `json:"peak_callers"`
	PerThousand   float64 `json:"cpu_s_per_1000"` // at the peak
	PerCore       float64 `json:"examples_per_core_second"`
	P50           float64 `json:"p50_ms_c1"` // one caller
	P99           float64 `json:"p99_ms_c1"`
	MemoryMiB     float64 `json:"memory_mib"`
	ClientShare   float64 `json:"client_cpu_share"` // at the point of Within20, or the peak if there is none
	ClientLimited bool    `json:"client_limited"`
	Mismatches    uint64  `json:"mismatches"`
	Errors        uint64  `json:"errors"` // failed and without a reply, in the closed loop

	limited map[float64]bool // whether the client was the limit at the point quoted, by bound; 0: the peak
}

// within gives the throughput within a bound in milliseconds; 0: without a bound.
func (f *Figures) within(bound float64) float64 {
	return map[float64]float64{10: f.Within10, 20: f.Within20, 50: f.Within50, 0: f.Peak}[bound]
}

// bounds are those of the tables.
var bounds = []float64{10, 20, 50, 0}

// Figures computes those of all arms and sizes.
func (r *Results) Figures() []Figures {
	var list []Figures
	for _, a := range r.Arms {
		for _, rows := range r.Sizes() {
			if f, ok := a.figures(rows); ok {
				list = append(list, f)
			}
		}
	}
	return list
}

// Sizes are the numbers of examples a request that occur, ascending.
func (r *Results) Sizes() []int {
	sizes := map[int]bool{}
	for _, a := range r.Arms {
		for _, p := range a.Points {
			sizes[p.Rows] = true
		}
	}
	return slices.Sorted(maps.Keys(sizes))
}

// figures are those of the arm's variant that is best at a size: by throughput within 20 ms, then by throughput.
func (a *Arm) figures(rows int) (best Figures, found bool) {
	seen := map[string]bool{}
	for _, p := range a.Points {
		if p.Rows != rows || p.Mode != load.Closed || seen[p.Variant] {
			continue
		}
		seen[p.Variant] = true
		f := a.figuresOf(p.Variant, rows)
		if c := cmp.Or(cmp.Compare(f.Within20, best.Within20), cmp.Compare(f.Peak, best.Peak)); !found || c > 0 {
			best, found = f, true
		}
	}
	return best, found
}

func (a *Arm) figuresOf(variant string, rows int) Figures {
	f := Figures{Arm: a.Name, Variant: variant, Rows: rows, MemoryMiB: a.MemoryMiB, Mismatches: a.Mismatches, limited: map[float64]bool{}}
	var quoted *Point
	for _, p := range a.Points {
		if p.Rows != rows || p.Mode != load.Closed || p.Variant != variant {
			continue
		}
		lost, _ := p.lost()
		f.Errors += lost
		if a.Mismatches > 0 || !p.sound() { // I1, I2
			continue
		}
		if p.Load == 1 {
			f.P50, f.P99 = p.P50(), p.P99()
		}
		rate := p.Examples()
		take := func(bound float64, best *float64) bool {
			if (bound > 0 && p.P99() > bound) || rate <= *best {
				return false
			}
			*best, f.limited[bound] = rate, p.Limited()
			return true
		}
		take(10, &f.Within10)
		take(50, &f.Within50)
		if take(20, &f.Within20) {
			quoted = p
		}
		if take(0, &f.Peak) {
			f.PeakCallers, f.PerThousand = p.Load, p.PerThousand()
			if f.PerThousand > 0 {
				f.PerCore = 1000 / f.PerThousand
			}
			if quoted == nil {
				f.ClientShare, f.ClientLimited = p.ClientShare(), p.Limited()
			}
		}
	}
	if quoted != nil {
		f.ClientShare, f.ClientLimited = quoted.ClientShare(), quoted.Limited()
	}
	return f
}

// pick finds the figures of an arm at a size.
func pick(list []Figures, arm string, rows int) (Figures, bool) {
	i := slices.IndexFunc(list, func(f Figures) bool { return f.Arm == arm && f.Rows == rows })
	if i < 0 {
		return Figures{}, false
	}
	return list[i], true
}

// bestPython is the largest (or, if lower, the smallest) of a figure over the Python arms at a size; 0: there is none.
func bestPython(list []Figures, rows int, lower bool, of func(*Figures) float64) (best float64, arm string) {
	for i := range list {
		f := &list[i]
		if f.Rows != rows || !isPython(f.Arm) {
			continue
		}
		if v := of(f); v > 0 && (best == 0 || lower == (v < best)) {
			best, arm = v, f.Arm
		}
	}
	return best, arm
}
