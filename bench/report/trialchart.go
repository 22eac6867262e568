package report

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"rankd/bench/ablation"
	"rankd/bench/load"
)

// capacity draws what each server can be offered, and how its latency goes up on the way there.
func (d *drawer) capacity() {
	if d.err != nil || len(d.Capacity) == 0 {
		return
	}
	var panels []panel
	for i, s := range d.Capacity {
		for _, c := range s.Capacities {
			title := fmt.Sprintf("every reply within %s ms", count(c.Objective))
			n := slices.IndexFunc(panels, func(p panel) bool { return p.title == title })
			if n < 0 {
				n = len(panels)
				panels = append(panels, panel{title: title})
			}
			b := bar{name: s.Name, value: c.Rate, look: lookAt(i)}
			if c.Rate == 0 {
				b.note = "no rate passed"
			}
			panels[n].bars = append(panels[n].bars, b)
		}
	}
	d.panels("capacity.svg", "Capacity, requests a second", panels)
	d.rising()
}

// rising is the p99 of each server by the offered rate, medians over the repeats. Rates that the first repeats failed have no others: one
// disturbance of the machine would be a peak of its line, so they are in the table only.
func (d *drawer) rising() {
	file, title := "capacity-latency.svg", d.marked("Latency by offered rate, where all repeats were made")
	p, l := newPlot(title, "requests a second offered", "p99 ms"), newLegend()
	any := false
	for i, s := range d.Capacity {
		var points plotter.XYs
		repeats := 0
		for _, x := range s.Points {
			repeats = max(repeats, judged(x.Results))
		}
		for _, x := range s.Points {
			q := Point{Repeats: x.Results}
			if p99 := q.P99(); p99 > 0 && judged(x.Results) == repeats {
				points = append(points, plotter.XY{X: x.Rate, Y: p99})
			}
		}
		if len(points) == 0 {
			continue
		}
		if !d.line(p, l, file, s.Name, lookAt(i), points) {
			return
		}
		any = true
	}
	if !any {
		return
	}
	logarithmic(&p.X, plot.LogScale{})
	logarithmic(&p.Y, plot.LogScale{})
	for _, c := range d.Capacity[0].Capacities {
		d.limit(p, l, file, c.Objective)
	}
	d.save(p, l, file, title)
}

// overload draws what was offered, and what became of it.
func (d *drawer) overload() {
	if d.err != nil || d.Overload == nil {
		return
	}
	var panels []panel
	for i := range d.Overload.Scenarios {
		s := &d.Overload.Scenarios[i]
		r := s.Result
		if r == nil || r.Timed == 0 {
			continue
		}
		part := func(n uint64) float64 { return r.Rate * float64(n) / float64(r.Timed) }
		x := panel{title: s.Name, bars: []bar{{name: "offered", value: r.Rate, look: look{colour: ink}}, {name: "answered", value: part(r.OK), look: lookOf(product)}}}
		for _, e := range r.Errors {
			name := e.Reason
			if name == "" {
				name = e.Code
			}
			x.bars = append(x.bars, bar{name: name, value: part(e.Count), look: lookOf("py")})
		}
		lost := bar{name: "no reply", value: part(r.NoReply), look: lookOf("py-mp-batch-shared")}
		if r.NoReply == 0 {
			lost.note = "none"
		}
		x.bars = append(x.bars, lost)
		panels = append(panels, x)
	}
	if len(panels) > 0 {
		d.panels("overload.svg", "Overload on purpose, requests a second", panels)
	}
}

// ablations draws a chart for each thing that was changed: examples a second of every setting, a panel for each load.
func (d *drawer) ablations() {
	if d.Ablations == nil {
		return
	}
	for _, t := range d.Ablations.Tables {
		if d.err != nil {
			return
		}
		var panels []panel
		for _, at := range t.Loads {
			x := panel{title: load.Callers(at.Callers) + ", " + load.PerRequest(at.Rows)}
			for i := range t.Settings {
				runs := t.Settings[i].Of(at)
				if len(runs) == 0 {
					continue
				}
				b := bar{name: t.Settings[i].Name, value: load.MedianOf(runs, ablation.Rate), look: lookOf("rankd-nobatch")}
				switch base := load.MedianOf(t.Settings[0].Of(at), ablation.Rate); {
				case i == 0:
					b.look = lookOf(product)
				case base > 0:
					b.more = fmt.Sprintf(" (%.2f ×)", b.value/base)
				}
				x.bars = append(x.bars, b)
			}
			if len(x.bars) > 1 {
				panels = append(panels, x)
			}
		}
		if len(panels) > 0 {
			d.panels(ablationFile(t.Name), "One thing changed: "+t.Name+", examples a second", panels)
		}
	}
}

// ablationFile is the chart of a table.
func ablationFile(table string) string {
	return "ablation-" + strings.ReplaceAll(table, " ", "-") + ".svg"
}
