package report

import (
	"fmt"
	"strings"

	"rankd/bench/capacity"
	"rankd/bench/load"
)

// page is the report being written.
type page struct {
	*Results
	list []Figures
	b    strings.Builder
}

// Markdown writes the report. charts are the names of files beside it with their titles, in order.
func (r *Results) Markdown(charts []Chart) string {
	p := &page{Results: r, list: r.Figures()}
	p.line("# Benchmark results\n")
	if r.Simulated {
		p.line("**The accelerator is simulated** in all figures below, the same for every server: they measure the host side. See each result's `executor`.\n")
	}
	if r.Env != "" {
		p.line("```\n%s\n```\n", r.Env)
	}
	p.line("Figures are medians over the repeats. An asterisk marks runs in which the client used more than %.0f %% of its processors: the "+
		"server could have done more. Absolute figures mean little away from this machine; ratios are within one run of the suite.\n", 100*load.LimitedShare)
	p.wrong()
	if len(r.Arms) > 0 {
		p.throughput()
		p.single()
		p.cpu()
		p.memory()
		p.openLoop()
		p.targets()
	}
	p.capacities()
	for _, c := range charts {
		p.line("## %s\n\n![%s](%s)\n", c.Title, c.Title, c.File)
	}
	if len(r.Arms) > 0 {
		p.errors()
		p.points()
	}
	p.published()
	return p.b.String()
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// heading says what comes, and that the accelerator is simulated (I3).
func (p *page) heading(text string) {
	if p.Simulated {
		text += " (simulated accelerator)"
	}
	p.line("## %s\n", text)
}

// wrong names the arms whose replies were wrong.
func (p *page) wrong() {
	for _, a := range p.Arms {
		if a.Mismatches > 0 {
			p.line("**%s gave %d wrong replies; none of its figures are reported.** The first: %s\n", a.Name, a.Mismatches, a.First)
		}
	}
}

// byArm is a table with a row for each size and a column for each arm.
func (p *page) byArm(first string, more []string, cell func(f *Figures) string, last func(rows int) []string) {
	t := table{head: []string{first}}
	for _, a := range p.Arms {
		t.head = append(t.head, a.Name)
	}
	t.head = append(t.head, more...)
	for _, rows := range p.Sizes() {
		cells := []string{fmt.Sprint(rows)}
		for _, a := range p.Arms {
			text := "–"
			if f, ok := pick(p.list, a.Name, rows); ok {
				text = cell(&f)
			}
			cells = append(cells, text)
		}
		t.add(append(cells, last(rows)...)...)
	}
	t.write(&p.b)
}

func (p *page) throughput() {
	p.heading("Throughput, examples a second")
	for _, bound := range bounds {
		if bound > 0 {
			p.line("With p99 at most %.0f ms:\n", bound)
		} else {
			p.line("Without a bound on latency:\n")
		}
		of := func(f *Figures) float64 { return f.within(bound) }
		p.byArm("examples a request", []string{"best Python", "rankd against it"}, func(f *Figures) string { return rate(of(f), f.limited[bound]) },
			func(rows int) []string {
				best, arm := bestPython(p.list, rows, false, of)
				ours, _ := pick(p.list, product, rows)
				return []string{arm, ratio(of(&ours), best)}
			})
	}
}

func (p *page) single() {
	p.heading("One caller, one request at a time: p50 / p99 in ms")
	p.byArm("examples a request", []string{"best Python against rankd, p50"},
		func(f *Figures) string {
			if f.P50 == 0 {
				return "–"
			}
			return fmt.Sprintf("%.2f / %.2f", f.P50, f.P99)
		},
		func(rows int) []string {
			best, _ := bestPython(p.list, rows, true, func(f *Figures) float64 { return f.P50 })
			ours, _ := pick(p.list, product, rows)
			return []string{ratio(best, ours.P50)}
		})
}

func (p *page) cpu() {
	p.heading("Server CPU seconds for 1,000 examples, at the peak")
	of := func(f *Figures) float64 { return f.PerThousand }
	p.byArm("examples a request", []string{"best Python", "against rankd"}, func(f *Figures) string { return figure("%.4f", f.PerThousand) },
		func(rows int) []string {
			best, arm := bestPython(p.list, rows, true, of)
			ours, _ := pick(p.list, product, rows)
			return []string{arm, ratio(best, ours.PerThousand)}
		})
	p.line("Examples for a second of one core:\n")
	p.byArm("examples a request", nil, func(f *Figures) string { return rate(f.PerCore, false) }, func(int) []string { return nil })
}

func (p *page) memory() {
	p.heading("Memory at its peak, MiB (PSS of all processes, and hugetlb pages once)")
	t := table{head: []string{"server", "MiB"}}
	for _, a := range p.Arms {
		if a.MemoryMiB > 0 {
			t.add(a.Name, count(a.MemoryMiB))
		}
	}
	t.write(&p.b)
}

// openLoop lists every repeat: their spread is what the table is for.
func (p *page) openLoop() {
	p.heading("Open loop: requests come when they are due, whatever the server does")
	t := table{head: []string{"server", "examples a request", "requests/s", "of its peak", "p50 ms", "p99 ms, each repeat", "spread of p99", "lost"}}
	for _, a := range p.Arms {
		for _, x := range a.Points {
			if x.Mode == load.Closed || a.Mismatches > 0 {
				continue
			}
			var repeats []string
			low, high := x.Repeats[0].Latency.P99, 0.0
			for _, r := range x.Repeats {
				repeats = append(repeats, fmt.Sprintf("%.1f", r.Latency.P99))
				low, high = min(low, r.Latency.P99), max(high, r.Latency.P99)
			}
			f, _ := pick(p.list, a.Name, x.Rows)
			share, spread := "–", "–"
			if f.Peak > 0 {
				share = fmt.Sprintf("%.0f %%", 100*x.Load*float64(x.Rows)/f.Peak)
			}
			if low > 0 && len(x.Repeats) > 1 {
				spread = fmt.Sprintf("%.0f %%", 100*(high/low-1))
			}
			lost, timed := x.lost()
			t.add(a.Name, fmt.Sprint(x.Rows), rate(x.Load, x.Limited()), share, fmt.Sprintf("%.2f", x.P50()), strings.Join(repeats, " / "), spread, fmt.Sprintf("%d of %s", lost, count(float64(timed))))
		}
	}
	t.write(&p.b)
}

func (p *page) capacities() {
	if len(p.Capacity) == 0 {
		return
	}
	p.heading("Capacity: the highest rate at which every timed request was answered within the objective, in every repeat")
	t := table{head: []string{"server", "objective", "requests/s", "examples/s", "fails at", "p50 ms", "p99 ms", "CPU s/1,000 examples"}}
	if p.Price > 0 {
		t.head = append(t.head, "cost of a million requests")
	}
	for _, s := range p.Capacity {
		for _, c := range s.Capacities {
			cells := []string{
				s.Name, fmt.Sprintf("%.0f ms", c.Objective), rate(c.Rate, c.ClientLimited), rate(c.Examples, c.ClientLimited), rate(c.Failing, false),
				figure("%.2f", c.P50), figure("%.2f", c.P99), figure("%.4f", c.PerThousand),
			}
			if p.Price > 0 {
				cost := 0.0
				if c.Rate > 0 {
					cost = capacity.CostPerMillion(p.Price, c.Rate)
				}
				cells = append(cells, figure("%.4g", cost))
			}
			t.add(cells...)
		}
	}
	t.write(&p.b)
}

// errors lists what became of requests that were not answered.
func (p *page) errors() {
	p.heading("Requests that were refused, failed or had no reply")
	t := table{head: []string{"server", "load", "examples a request", "code", "reason", "count"}}
	for _, a := range p.Arms {
		for _, x := range a.Results {
			for _, e := range x.Errors {
				t.add(a.Name, x.Title(), fmt.Sprint(x.Rows), e.Code, e.Reason, count(float64(e.Count)))
			}
			if x.NoReply > 0 {
				t.add(a.Name, x.Title(), fmt.Sprint(x.Rows), "no reply", "", count(float64(x.NoReply)))
			}
		}
	}
	if len(t.rows) == 0 {
		p.line("None.\n")
		return
	}
	t.write(&p.b)
}

func (p *page) points() {
	p.heading("All points")
	t := table{head: []string{"server", "load", "examples a request", "repeats", "examples/s", "p50 ms", "p99 ms", "CPU s/1,000", "client", "lost"}}
	for _, a := range p.Arms {
		for _, x := range a.Points {
			lost, _ := x.lost()
			t.add(a.Name, x.Repeats[0].Title(), fmt.Sprint(x.Rows), fmt.Sprint(len(x.Repeats)), rate(x.Examples(), x.Limited()),
				fmt.Sprintf("%.2f", x.P50()), fmt.Sprintf("%.2f", x.P99()), figure("%.4f", x.PerThousand()), fmt.Sprintf("%.0f %%", 100*x.ClientShare()), fmt.Sprint(lost))
		}
	}
	t.write(&p.b)
}
