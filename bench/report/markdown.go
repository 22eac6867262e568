package report

import (
	"fmt"
	"slices"
	"strings"

	"rankd/bench/capacity"
	"rankd/bench/load"
)

// page is the report being written.
type page struct {
	*Results
	list   []Figures
	charts []Chart
	b      strings.Builder
}

// Markdown writes the report. charts are the names of files beside it with their titles.
func (r *Results) Markdown(charts []Chart) string {
	p := &page{Results: r, list: r.Figures(), charts: charts}
	p.line("# Benchmark results\n")
	if r.Suite.brief() {
		how := fmt.Sprintf("tables of at most %s rows", count(float64(r.Suite.MaxVocab)))
		if r.Suite.Duration > 0 {
			how = fmt.Sprintf("%.2g s a point, %s", r.Suite.Duration, how)
		}
		p.line("**This is a smoke run**: %s. It shows that everything works; its figures, ratios and verdicts mean little.\n", how)
	}
	if r.Simulated {
		p.line("**The accelerator is simulated** in these results, the same for every server: they measure the host side. Every table and chart says so.\n")
	}
	if r.sharedUser() {
		p.line("**One user, many candidates** (workload %s). %s\n", r.Workload, p.workloadIs())
	}
	p.short()
	if r.Env != "" {
		p.line("```\n%s\n```\n", r.Env)
	}
	p.line("Figures are medians over the repeats. An asterisk marks figures at which the client used more than %.0f %% of its processors: the "+
		"server could have done more. Absolute figures mean little away from this machine; ratios are within one run of the suite.\n", 100*load.LimitedShare)
	p.servers()
	p.wrong()
	if len(r.Arms) > 0 {
		p.throughput()
		p.single()
		p.cpu()
		p.memory()
		p.openLoop()
		p.sweeps()
		if !r.sharedUser() { // I4
			p.published()
			p.targets()
		}
		p.behind()
		p.client()
	}
	p.notDone()
	p.capacities()
	p.trialSections()
	if len(r.Arms) > 0 {
		p.errors()
		p.points()
	}
	return p.b.String()
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// heading says what comes, and what kind of results they are (I3, I4).
func (p *page) heading(text string) { p.line("## %s\n", p.marked(text)) }

// workloadIs is the workload in a sentence.
func (p *page) workloadIs() string {
	if p.Suite != nil && p.Suite.WorkloadIs != "" {
		return p.Suite.WorkloadIs
	}
	return "The user's inputs came once a request, those of the candidates with a row each."
}

// chart shows those whose file begins so.
func (p *page) chart(prefix string) {
	for _, c := range p.charts {
		if strings.HasPrefix(c.File, prefix) {
			p.line("![%s](%s)\n", c.Title, c.File)
		}
	}
}

// servers says which were compared and what became of each.
func (p *page) servers() {
	if p.Suite == nil || len(p.Suite.Arms) == 0 {
		return
	}
	p.line("## The servers\n")
	t := table{head: []string{"server", "what it is", "state"}, left: 3}
	for _, a := range p.Suite.Arms {
		state := a.State
		if a.Why != "" {
			why, _, _ := strings.Cut(a.Why, "\n")
			state += ": " + why
		}
		t.add(a.Name, a.What, state)
	}
	t.write(&p.b)
	p.line("All of them ran on the same processors with the same model, wire format and load, one at a time, and in turn over the repeats. " +
		"Before anything was measured their replies were compared with a reference that shares no code with them; every reply under load was compared too.\n")
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
	p.line("A dash: no load of the plan kept the bound (or fewer than 999 of 1,000 requests were answered).\n")
	p.price()
	p.chart("throughput-20ms")
	p.chart("scaling-")
	p.chart("p99-")
}

// price is what a million requests cost on a machine with a known price.
func (p *page) price() {
	if p.Suite == nil || p.Suite.PricePerHour == 0 {
		return
	}
	p.line("Cost of a million requests at the throughput with p99 at most 20 ms, on a machine for %.4g an hour:\n", p.Suite.PricePerHour)
	p.byArm("examples a request", nil, func(f *Figures) string {
		if f.Within20 == 0 {
			return "–"
		}
		return fmt.Sprintf("%.3g", capacity.CostPerMillion(p.Suite.PricePerHour, f.Within20/float64(f.Rows)))
	}, func(int) []string { return nil })
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
	if p.Simulated {
		var words []string
		for _, rows := range p.Sizes() {
			words = append(words, fmt.Sprintf("%.2f at %d", simulatedTime(rows), rows))
		}
		p.line("The simulated accelerator alone takes, in ms: %s.\n", strings.Join(words, ", "))
	}
}

// simulatedTime is the simulated accelerator's own time for a batch, in milliseconds.
func simulatedTime(rows int) float64 { return 0.35 + 0.0015*float64(rows) }

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
	p.chart("cpu")
}

func (p *page) memory() {
	p.heading("Memory at its peak, MiB (PSS of all processes, and hugetlb pages once)")
	t := table{head: []string{"server", "MiB", "of these tables", "of these slabs", "the rest"}}
	for _, a := range p.Arms {
		switch {
		case a.MemoryMiB == 0:
		case a.Sizes == nil:
			t.add(a.Name, count(a.MemoryMiB), "", "", "")
		default:
			tables, region := mib(a.Sizes.Tables), mib(a.Sizes.Region)
			t.add(a.Name, count(a.MemoryMiB), count(tables), count(region), count(a.MemoryMiB-tables-region))
		}
	}
	t.write(&p.b)
	p.chart("memory")
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// openLoop lists every repeat: their spread is what the table is for.
func (p *page) openLoop() {
	p.heading("Open loop: requests come when they are due, whatever the server does")
	t := table{head: []string{"server", "examples a request", "requests/s", "of its peak", "p50 ms", "p99 ms, each repeat", "spread of p99", "lost"}}
	list := slices.Clone(p.Arms)
	if p.Null != nil {
		list = append(list, p.Null)
	}
	for _, a := range list {
		for _, x := range a.Points {
			if x.Mode == load.Closed || a.Mismatches > 0 {
				continue
			}
			var repeats []string
			for _, r := range x.Repeats {
				repeats = append(repeats, fmt.Sprintf("%.1f", r.Latency.P99))
			}
			share, spread := "–", "–"
			if f, _ := pick(p.list, a.Name, x.Rows); f.Peak > 0 {
				share = fmt.Sprintf("%.0f %%", 100*x.Load*float64(x.Rows)/f.Peak)
			}
			if s, ok := x.spread(); ok {
				spread = fmt.Sprintf("%.0f %%", 100*s)
			}
			lost, timed := x.lost()
			t.add(a.title(), fmt.Sprint(x.Rows), rate(x.Load, x.Limited()), share, fmt.Sprintf("%.2f", x.P50()), strings.Join(repeats, " / "), spread, fmt.Sprintf("%d of %s", lost, count(float64(timed))))
		}
	}
	t.write(&p.b)
	p.line("Latency counts from the moment a request was due. The server that does nothing gets the rate of rankd at 80 %% of its peak: its spread is the machine's own noise.\n")
}

func (a *Arm) title() string {
	if a.Name == null {
		return "does nothing"
	}
	return a.Name
}

// spread is by how much the largest p99 of the repeats is above the smallest one.
func (p *Point) spread() (float64, bool) {
	low, high := p.Repeats[0].Latency.P99, 0.0
	for _, r := range p.Repeats {
		low, high = min(low, r.Latency.P99), max(high, r.Latency.P99)
	}
	if low <= 0 || len(p.Repeats) < 2 {
		return 0, false
	}
	return high/low - 1, true
}

// sweeps lists what was tried to find the numbers of processes and threads.
func (p *page) sweeps() {
	t := table{head: []string{"server", "examples a request", "processes or frontends × threads", "callers", "examples/s", "p99 ms", "CPU s/1,000", "measured further"}, left: 1}
	for _, a := range p.Arms {
		for _, x := range a.Sweep {
			f, _ := pick(p.list, a.Name, x.Rows)
			mark := ""
			if f.Variant == x.Variant {
				mark = "yes"
			}
			t.add(a.Name, fmt.Sprint(x.Rows), strings.ReplaceAll(x.Variant, "x", " × "), fmt.Sprintf("%.0f", x.Load), rate(x.Examples(), x.Limited()), fmt.Sprintf("%.2f", x.P99()), figure("%.4f", x.PerThousand()), mark)
		}
	}
	if len(t.rows) == 0 {
		return
	}
	p.heading("Numbers of processes and threads that were tried")
	t.write(&p.b)
}

// errors lists what became of requests that were not answered.
func (p *page) errors() {
	p.heading("Requests that were refused, failed or had no reply")
	t := table{head: []string{"server", "load", "examples a request", "code", "reason", "count"}, left: 2}
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
	t := table{head: []string{"server", "load", "examples a request", "repeats", "examples/s", "spread", "p50 ms", "p99 ms", "CPU s/1,000", "client", "lost"}, left: 2}
	for _, a := range p.Arms {
		for _, x := range a.Points {
			lost, _ := x.lost()
			name := a.Name
			if x.Variant != "" && x.Variant != "one" {
				name += " " + x.Variant
			}
			t.add(name, x.Repeats[0].Title(), fmt.Sprint(x.Rows), fmt.Sprint(len(x.Repeats)), rate(x.Examples(), x.Limited()), x.rateSpread(),
				fmt.Sprintf("%.2f", x.P50()), fmt.Sprintf("%.2f", x.P99()), figure("%.4f", x.PerThousand()), fmt.Sprintf("%.0f %%", 100*x.ClientShare()), fmt.Sprint(lost))
		}
	}
	t.write(&p.b)
}

// rateSpread is how far the repeats of a throughput are apart.
func (p *Point) rateSpread() string {
	low, high := p.Repeats[0].ExampleRate, 0.0
	for _, r := range p.Repeats {
		low, high = min(low, r.ExampleRate), max(high, r.ExampleRate)
	}
	if len(p.Repeats) < 2 || low <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*(high/low-1))
}
