package report

import "fmt"

// target is what rankd is to reach against the best Python server, by the number of examples a request.
type target struct {
	what    string
	at      map[int]float64 // times better
	measure func(p *page, rows int) float64
}

func targets() []target {
	against := func(lower bool, of func(*Figures) float64) func(p *page, rows int) float64 {
		return func(p *page, rows int) float64 {
			best, _ := bestPython(p.list, rows, lower, of)
			ours, ok := pick(p.list, product, rows)
			if v := of(&ours); ok && v > 0 && best > 0 {
				if lower {
					return best / v
				}
				return v / best
			}
			return 0
		}
	}
	return []target{
		{"examples/s with p99 at most 20 ms", map[int]float64{1: 8, 16: 3, 128: 2.5}, against(false, func(f *Figures) float64 { return f.Within20 })},
		{"server CPU for 1,000 examples", map[int]float64{1: 10, 16: 3, 128: 2.5}, against(true, func(f *Figures) float64 { return f.PerThousand })},
	}
}

// targets says of each target whether it is met.
func (p *page) targets() {
	p.heading("Targets against the best Python server")
	t := table{head: []string{"what", "examples a request", "target", "measured", ""}}
	for _, x := range targets() {
		for _, rows := range p.Sizes() {
			want, set := x.at[rows]
			if !set {
				continue
			}
			got, verdict := x.measure(p, rows), "not measured"
			switch {
			case got >= want:
				verdict = "met"
			case got > 0:
				verdict = "missed"
			}
			t.add(x.what, fmt.Sprint(rows), fmt.Sprintf("%.1f × better", want), figure("%.2f ×", got), verdict)
		}
	}
	t.write(&p.b)
}

// published are figures to lay beside ours.
func (p *page) published() {
	p.line("## Figures that were published for this job\n")
	p.line("XLA Serving Engine (XSE) and Python servers on one Cloud TPU v6e chip, 8 server cores (AMD EPYC), 16 client cores, DLRM-DCNv2 with " +
		"6.2 million rows (3.2 GB). Another machine and another device: not to be compared in absolute terms.\n")
	t := table{head: []string{"examples a request", "XSE at p99 ≤ 20 ms", "best Python", "ratio", "XSE CPU s/1,000", "py-mp-batch CPU s/1,000", "XSE peak", "py-mp-batch peak"}}
	t.add("1", "30,126", "6,081", "5.0", "0.224", "0.770", "30,126", "8,825")
	t.add("16", "83,375", "42,407", "2.0", "0.059", "0.084", "122,011", "79,682")
	t.add("128", "92,373", "81,011", "1.14", "0.041", "0.057", "182,323", "126,174")
	t.write(&p.b)
	p.line("One client, p50 in ms at 1 / 16 / 128 examples a request: XSE without batching 1.18 / 1.75 / 2.94, a simple Python server 1.23 / 1.69 / 4.65. " +
		"Memory: XSE 8.0 to 8.4 GiB, py-mp-batch 31.9 GiB.")
}
