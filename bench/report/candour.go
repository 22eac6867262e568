package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rankd/bench/load"
)

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// short is what a reader in a hurry gets.
func (p *page) short() {
	if len(p.Arms) == 0 {
		return
	}
	met, missed := 0, 0
	for _, v := range p.verdicts() {
		switch v.verdict {
		case verdictMet, verdictStretch:
			met++
		case verdictMissed:
			missed++
		}
	}
	p.line("In short:\n")
	for _, m := range []struct {
		what  string
		lower bool
		of    func(*Figures) float64
	}{
		{"examples a second with p99 at most 20 ms", false, func(f *Figures) float64 { return f.Within20 }},
		{"examples a second without a bound", false, func(f *Figures) float64 { return f.Peak }},
		{"server CPU for 1,000 examples", true, func(f *Figures) float64 { return f.PerThousand }},
	} {
		var words []string
		for _, rows := range p.Sizes() {
			words = append(words, fmt.Sprintf("%s at %d", p.against(rows, m.lower, m.of), rows))
		}
		how := "rankd against the best Python server"
		if m.lower {
			how = "the best Python server against rankd"
		}
		p.line("- %s, %s: %s examples a request.", m.what, how, strings.Join(words, ", "))
	}
	if p.sharedUser() {
		p.line("- Comparisons in which another server is ahead: %d, see [below](#where-rankd-is-behind).\n", len(p.losses()))
		return
	}
	p.line("- Targets that this measures: %d met, %d missed. Comparisons in which another server is ahead: %d, see [below](#where-rankd-is-behind).\n", met, missed, len(p.losses()))
}

// against is how many times better rankd is than the best Python server.
func (p *page) against(rows int, lower bool, of func(*Figures) float64) string {
	best, _ := bestPython(p.list, rows, lower, of)
	ours, _ := pick(p.list, product, rows)
	switch mine := of(&ours); {
	case mine == 0 && best > 0 && ours.Peak > 0:
		return "none"
	case lower:
		return ratio(best, mine)
	default:
		return ratio(mine, best)
	}
}

// loss is a comparison in which another server did better.
type loss struct {
	what, arm    string
	rows         int
	ours, theirs float64
	format       string
}

// losses lists every comparison in which rankd is behind any other server, its own variants aside.
func (p *page) losses() []loss {
	var list []loss
	compare := func(what, format string, lower bool, of func(*Figures) float64) {
		for _, rows := range p.Sizes() {
			ours, ok := pick(p.list, product, rows)
			if !ok || of(&ours) == 0 {
				for i := range p.list {
					if f := &p.list[i]; f.Rows == rows && ok && rank(f.Arm) > 1 && of(f) > 0 {
						list = append(list, loss{what, f.Arm, rows, 0, of(f), format})
					}
				}
				continue
			}
			for i := range p.list {
				f := &p.list[i]
				if f.Rows != rows || rank(f.Arm) < 2 || of(f) == 0 {
					continue
				}
				if (of(f) > of(&ours)) != lower && of(f) != of(&ours) {
					list = append(list, loss{what, f.Arm, rows, of(&ours), of(f), format})
				}
			}
		}
	}
	for _, bound := range bounds {
		name := "examples/s, p99 at most " + fmt.Sprintf("%.0f ms", bound)
		if bound == 0 {
			name = "examples/s, no bound"
		}
		compare(name, "%.0f", false, func(f *Figures) float64 { return f.within(bound) })
	}
	compare("CPU s/1,000 examples", "%.4f", true, func(f *Figures) float64 { return f.PerThousand })
	compare("one caller, p50 ms", "%.2f", true, func(f *Figures) float64 { return f.P50 })
	compare("one caller, p99 ms", "%.2f", true, func(f *Figures) float64 { return f.P99 })
	list = append(list, p.openLosses()...)
	for _, a := range p.Arms {
		if ours := p.arm(product); ours != nil && ours.MemoryMiB > 0 && rank(a.Name) > 1 && a.MemoryMiB > 0 && a.MemoryMiB < ours.MemoryMiB {
			list = append(list, loss{"memory at the peak, MiB", a.Name, 0, ours.MemoryMiB, a.MemoryMiB, "%.0f"})
		}
	}
	return list
}

// openLosses are those at the same share of each server's own peak.
func (p *page) openLosses() []loss {
	var list []loss
	ours := p.arm(product)
	if ours == nil {
		return nil
	}
	for _, x := range ours.Points {
		if x.Mode == load.Closed || x.Share == 0 {
			continue
		}
		for _, a := range p.Arms {
			if rank(a.Name) < 2 || a.Mismatches > 0 {
				continue
			}
			for _, y := range a.Points {
				if y.Rows == x.Rows && y.Share == x.Share && y.Mode == x.Mode && y.P99() > 0 && y.P99() < x.P99() {
					list = append(list, loss{fmt.Sprintf("open loop at %.0f %% of its own peak, p99 ms", 100*x.Share), a.Name, x.Rows, x.P99(), y.P99(), "%.2f"})
				}
			}
		}
	}
	return list
}

func (p *page) arm(name string) *Arm {
	for _, a := range p.Arms {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// behind says where another server did better.
func (p *page) behind() {
	p.line("## Where rankd is behind\n")
	list := p.losses()
	if len(list) == 0 {
		p.line("In none of the comparisons above.\n")
		return
	}
	t := table{head: []string{p.marked("what"), "examples a request", "rankd", "the others"}, left: 1}
	for i := 0; i < len(list); {
		l := list[i]
		var others []string
		for ; i < len(list) && list[i].what == l.what && list[i].rows == l.rows; i++ {
			others = append(others, list[i].arm+" "+number(l.format, list[i].theirs))
		}
		rows := fmt.Sprint(l.rows)
		if l.rows == 0 {
			rows = ""
		}
		t.add(l.what, rows, number(l.format, l.ours), strings.Join(others, ", "))
	}
	t.write(&p.b)
}

// client says what the client could have done, and where it was the limit.
func (p *page) client() {
	p.heading("The client and the machine")
	if p.Null != nil {
		t := table{head: []string{"examples a request", "load", "requests/s", "client CPU µs a call", "p50 ms", "p99 ms"}}
		for _, x := range p.Null.Points {
			cost := x.median(func(r *load.Result) float64 { return r.Client.PerCall })
			t.add(fmt.Sprint(x.Rows), x.Repeats[0].Title(), rate(x.median(func(r *load.Result) float64 { return r.RequestRate }), x.Limited()), fmt.Sprintf("%.1f", cost), fmt.Sprintf("%.3f", x.P50()), fmt.Sprintf("%.3f", x.P99()))
		}
		p.line("Against a server that does nothing:\n")
		t.write(&p.b)
	}
	var limited []string
	note := func(name string, points []*Point) {
		for _, x := range points {
			if x.Limited() {
				limited = append(limited, fmt.Sprintf("%s, %s, %s", name, load.PerRequest(x.Rows), x.Repeats[0].Title()))
			}
		}
	}
	for _, a := range p.Arms {
		note(a.Name, a.Points)
		note(a.Name+", where processes were tried", a.Sweep)
	}
	if len(limited) == 0 {
		p.line("The client was the limit of no point of the servers above.\n")
		return
	}
	p.line("The client was the limit of these points; the server could have done more:\n")
	for _, l := range limited {
		p.line("- %s", l)
	}
	p.line("")
}

// notDone lists what belongs to the method and is not on this page.
func (p *page) notDone() {
	p.line("## What was not done\n")
	if p.Suite != nil {
		for _, a := range p.Suite.Arms {
			if a.State != Measured {
				why, _, _ := strings.Cut(a.Why, "\n")
				p.line("- %s: %s: %s", a.Name, a.State, why)
			}
		}
	}
	for _, x := range []struct {
		missing bool
		what    string
	}{
		{len(p.Arms) == 0, "Comparison with other servers: bench/run_benchmark.sh."},
		{len(p.Capacity) == 0, "Capacity within an objective: rankd bench capacity."},
		{len(p.Capacity) > 0 && !p.hasCapacity("two half servers"), "Two half-size servers against one: rankd bench capacity --halves."},
		{p.Overload == nil, "Overload on purpose: rankd bench overload."},
		{p.Soak == nil, "Soak: rankd bench soak."},
		{p.Ablations == nil, "Where the gain comes from: rankd bench ablation."},
	} {
		if x.missing {
			p.line("- %s", x.what)
		}
	}
	if p.Ablations != nil {
		for _, l := range p.Ablations.NotDone {
			p.line("- %s", l)
		}
	}
	if p.Simulated {
		p.line("- A real accelerator: these results are from a simulated one.")
	}
	if p.sharedUser() {
		p.line("- Targets and published figures: they are about independent examples.")
	}
	p.line("- The same run on a second host.")
	p.line("- Targets of parts (lookups against NumPy and FBGEMM, the RPC layer alone, the device owner against a bare loop, allocations): they are measured by Go benchmarks and tests, not by this suite.\n")
}

func (p *page) hasCapacity(name string) bool {
	for _, s := range p.Capacity {
		if s.Name == name {
			return true
		}
	}
	return false
}
