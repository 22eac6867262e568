package report

import (
	"fmt"
	"slices"

	"rankd/bench/load"
)

// Verdicts on targets.
const (
	verdictMet     = "met"
	verdictStretch = "met, and the stretch too"
	verdictMissed  = "missed"
	verdictNone    = "not measured"
)

// verdict is a target and what was measured.
type verdict struct {
	what, rows, must, stretch, measured string
	verdict                             string
}

// factor is a target of so many times better than Python, by the number of examples a request.
type factor struct {
	what    string
	arm     string // whose figure it is
	must    map[int]float64
	stretch map[int]float64
	lower   bool
	of      func(*Figures) float64
	simOnly bool
}

func factors() []factor {
	return []factor{
		{
			what: "examples/s with p99 at most 20 ms, against the best Python server", arm: product, must: map[int]float64{1: 8, 16: 3, 128: 2.5},
			stretch: map[int]float64{1: 20, 16: 5, 128: 3}, of: func(f *Figures) float64 { return f.Within20 }, simOnly: true,
		},
		{
			what: "server CPU for 1,000 examples, against the best Python server", arm: product, must: map[int]float64{1: 10, 16: 3, 128: 2.5},
			stretch: map[int]float64{1: 12, 16: 3.5, 128: 3}, lower: true, of: func(f *Figures) float64 { return f.PerThousand },
		},
		{
			what: "the same with tables of int8", arm: narrow, must: map[int]float64{1: 12, 16: 5, 128: 4.5},
			stretch: map[int]float64{1: 16, 16: 6, 128: 5}, lower: true, of: func(f *Figures) float64 { return f.PerThousand },
		},
	}
}

// judge compares a figure that should be large with its bounds.
func judge(got, must, stretch float64) string {
	switch {
	case got == 0:
		return verdictNone
	case got >= stretch:
		return verdictStretch
	case got >= must:
		return verdictMet
	}
	return verdictMissed
}

// verdicts judges every target that these results say something about.
func (p *page) verdicts() []verdict {
	var list []verdict
	for _, x := range factors() {
		if x.simOnly && !p.Simulated {
			continue
		}
		for _, rows := range p.Sizes() {
			must, set := x.must[rows]
			if !set {
				continue
			}
			best, _ := bestPython(p.list, rows, x.lower, x.of)
			ours, _ := pick(p.list, x.arm, rows)
			v := verdict{x.what, fmt.Sprint(rows), fmt.Sprintf("%.1f × better", must), fmt.Sprintf("%.1f ×", x.stretch[rows]), "–", verdictNone}
			switch mine := x.of(&ours); {
			case best == 0:
			case mine > 0:
				got := mine / best
				if x.lower {
					got = best / mine
				}
				v.measured, v.verdict = fmt.Sprintf("%.2f ×", got), judge(got, must, x.stretch[rows])
			case ours.Peak > 0:
				v.measured, v.verdict = "no load kept the bound", verdictMissed
			}
			list = append(list, v)
		}
	}
	return slices.Concat(list, p.latencyVerdicts(), p.spreadVerdicts(), p.memoryVerdicts())
}

// latencyVerdicts is about one caller: what the host adds to the device's own time.
func (p *page) latencyVerdicts() []verdict {
	if !p.Simulated {
		return nil // the device's own time is not known
	}
	var list []verdict
	for _, rows := range p.Sizes() {
		ours, _ := pick(p.list, product, rows)
		python, _ := pick(p.list, "py", rows)
		v := verdict{what: "one caller: p50 beyond the device's own time, against py", rows: fmt.Sprint(rows), must: "at most 0.50 ×", stretch: "0.33 ×", measured: "–", verdict: verdictNone}
		if own := simulatedTime(rows); ours.P50 > own && python.P50 > own {
			share := (ours.P50 - own) / (python.P50 - own)
			v.measured, v.verdict = fmt.Sprintf("%.2f × (%.2f against %.2f ms)", share, ours.P50-own, python.P50-own), judge(1/share, 2, 3)
		}
		list = append(list, v)
	}
	return list
}

// spreadVerdicts is about how much p99 varies over repeats, beside how much it does for a server that does nothing.
func (p *page) spreadVerdicts() []verdict {
	ours := p.arm(product)
	if ours == nil || ours.Mismatches > 0 {
		return nil
	}
	var list []verdict
	for _, x := range ours.Points {
		if x.Mode == load.Closed || x.Share != 0.8 {
			continue
		}
		v := verdict{what: "open loop at 80 % of the peak: spread of p99 over repeats, above the machine's own", rows: fmt.Sprint(x.Rows), must: "at most 5 %", measured: "–", verdict: verdictNone}
		spread, ok := x.spread()
		floor, known := p.floor(x.Rows)
		if ok && known {
			above := spread - floor
			v.measured, v.verdict = fmt.Sprintf("%+.0f %% (%.0f %% against %.0f %%)", 100*above, 100*spread, 100*floor), verdictMissed
			if above <= 0.05 {
				v.verdict = verdictMet
			}
		}
		list = append(list, v)
	}
	return list
}

// floor is the spread of the server that does nothing.
func (p *page) floor(rows int) (float64, bool) {
	if p.Null == nil {
		return 0, false
	}
	for _, x := range p.Null.Points {
		if x.Mode != load.Closed && x.Rows == rows {
			return x.spread()
		}
	}
	return 0, false
}

// memoryVerdicts is about memory beyond tables and slabs.
func (p *page) memoryVerdicts() []verdict {
	ours := p.arm(product)
	if ours == nil || !p.Simulated {
		return nil
	}
	v := verdict{what: "memory beyond tables and slabs, simulated device", must: "at most 250 MiB + 40 MiB a frontend", stretch: "half of it", measured: "–", verdict: verdictNone}
	if ours.Sizes != nil && ours.MemoryMiB > 0 {
		rest := ours.MemoryMiB - mib(ours.Sizes.Tables) - mib(ours.Sizes.Region)
		bound := 250 + 40*float64(ours.Sizes.Frontends)
		v.measured = fmt.Sprintf("%.0f MiB with %d frontends, %.0f MiB are allowed", rest, ours.Sizes.Frontends, bound)
		v.verdict = judge(bound/max(rest, 1), 1, 2)
	}
	return []verdict{v}
}

// targets says of each target whether it is met.
func (p *page) targets() {
	p.heading("Targets")
	t := table{head: []string{"what", "examples a request", "must", "stretch", "measured", ""}}
	for _, v := range p.verdicts() {
		t.add(v.what, v.rows, v.must, v.stretch, v.measured, v.verdict)
	}
	t.write(&p.b)
}
