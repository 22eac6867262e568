package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"rankd/bench/gauges"
)

// soak draws what a soak saw over its time.
func (d *drawer) soak() {
	if d.err != nil || d.Soak == nil {
		return
	}
	var p50, p99, memory, pending plotter.XYs
	for _, s := range d.Soak.Result.Seconds {
		if s.OK > 0 {
			at := (d.Soak.Result.Warmup + float64(s.Second)) / 60
			p50, p99 = append(p50, plotter.XY{X: at, Y: s.P50}), append(p99, plotter.XY{X: at, Y: s.P99})
		}
	}
	for i := range d.Soak.Samples {
		s := &d.Soak.Samples[i]
		memory = append(memory, sampled(s, mib(s.RSS-d.Soak.Samples[0].RSS)))
		pending = append(pending, sampled(s, s.PendingRows))
	}
	d.overTime("soak-latency.svg", "Soak: latency, each second", "ms", plot.LogScale{}, series{"p50", p50}, series{"p99", p99})
	d.overTime("soak-memory.svg", "Soak: memory of all processes, more than at the start", "MiB", nil, series{"memory", memory})
	d.overTime("soak-pending.svg", "Soak: rows that wait", "rows", nil, series{"rows", pending})
}

func sampled(s *gauges.Sample, value float64) plotter.XY { return plotter.XY{X: s.At / 60, Y: value} }

// series is a line of a chart over time.
type series struct {
	name   string
	points plotter.XYs
}

func (d *drawer) overTime(file, title, unit string, scale plot.Normalizer, list ...series) {
	if d.err != nil {
		return
	}
	title = d.marked(title)
	p := newPlot(title, "minutes", unit)
	legend := newLegend()
	any := false
	for i, s := range list {
		if len(s.points) == 0 {
			continue
		}
		line, err := plotter.NewLine(s.points)
		if err != nil {
			d.err = fmt.Errorf("draw %s: %w", file, err)
			return
		}
		line.Color, line.Width = lookAt(3*i).colour, 1
		p.Add(line)
		legend.add(s.name, line)
		any = true
	}
	if !any {
		return
	}
	logarithmic(&p.Y, scale)
	p.X.Min = 0
	if len(list) == 1 {
		d.save(p, nil, file, title)
		return
	}
	d.save(p, legend, file, title)
}
