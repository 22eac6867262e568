package report

import (
	"fmt"

	"rankd/bench/ablation"
	"rankd/bench/load"
	"rankd/bench/overload"
)

func (p *page) trialSections() {
	if p.Overload != nil {
		p.overload()
	}
	if p.Soak != nil {
		p.soak()
	}
	if p.Ablations != nil {
		p.ablations()
	}
}

func (p *page) overload() {
	p.heading("Overload on purpose")
	for i := range p.Overload.Scenarios {
		s := &p.Overload.Scenarios[i]
		p.line("- **%s**: %s", s.Name, s.What)
	}
	p.line("")
	t := table{head: []string{"scenario", "offered requests/s", "answered", "p99 ms of these", "refused or failed", "no reply", "rows waiting at most", "calls open at most", "reply bytes not taken at most", "waits for the return budget", "memory MiB, start / peak / end", "restarts", "afterwards"}}
	for i := range p.Overload.Scenarios {
		s := &p.Overload.Scenarios[i]
		m, peak := s.Result, s.Peak()
		memory := ""
		for k, r := range s.Memory {
			if k > 0 {
				memory += " / "
			}
			memory += count(mib(r.Bytes()))
		}
		after := "nothing lost"
		if !s.Recovered() {
			after = fmt.Sprintf("**%d of %d lost**", s.After.Timed-s.After.OK, s.After.Timed)
		}
		t.add(s.Name, count(m.Rate), fmt.Sprintf("%s of %s", count(float64(m.OK)), count(float64(m.Timed))), fmt.Sprintf("%.1f", m.Latency.P99), s.Refusals(), count(float64(m.NoReply)),
			count(peak.PendingRows), count(peak.Calls), count(peak.ReturnBytes), count(peak.Stalls), memory, count(peak.Restarts), after)
	}
	t.write(&p.b)
	p.chart("overload")
	for i := range p.Overload.Scenarios {
		s := &p.Overload.Scenarios[i]
		if s.Readers == nil || s.Alone == nil {
			continue
		}
		p.line("- %s: the ordinary requests took p50 %.2f and p99 %.2f ms alone, and %.2f and %.2f ms beside them. The slow clients began %s calls and took %s replies; %s ended otherwise, %s were open at the end, the server ended %d connections.",
			s.Name, s.Alone.Latency.P50, s.Alone.Latency.P99, s.Result.Latency.P50, s.Result.Latency.P99, count(float64(s.Readers.Begun)), count(float64(s.Readers.Taken)),
			count(float64(s.Readers.Refused)), count(float64(s.Readers.Open)), s.Readers.Lost)
	}
	p.line("\n%s\n", overload.ReturnWait)
}

func (p *page) soak() {
	s := p.Soak
	p.heading(fmt.Sprintf("Soak: %.4g minutes at a steady %s requests a second", s.Minutes, count(s.Result.Rate)))
	t := table{head: []string{"what", "unit", "mean", "slope an hour", "95 % interval", "change over the run", ""}, left: 2}
	for i := range s.Fits {
		f := &s.Fits[i]
		if f.Mean == 0 && f.Slope == 0 && f.Verdict() == "steady" {
			t.add(f.What, f.Unit, "0", "0", "", "0", f.Verdict())
			continue
		}
		if f.Verdict() == "too short for a line" {
			t.add(f.What, f.Unit, "", "", "", "", f.Verdict())
			continue
		}
		t.add(f.What, f.Unit, fmt.Sprintf("%.4g", f.Mean), fmt.Sprintf("%+.3g", f.Slope), fmt.Sprintf("%+.3g to %+.3g", f.Low, f.High), fmt.Sprintf("%+.3g", f.Moves), f.Verdict())
	}
	t.write(&p.b)
	r := s.Result
	p.line("%s of %s requests were answered, every one rightly; p50 %.2f, p99 %.2f, p99.9 %.2f, max %.1f ms over the whole run. Lines go through means of ten "+
		"seconds; grows and falls mean that the interval excludes zero and the change is more than a tenth of the mean, or, of memory, more than 10 MiB an hour. "+
		"Memory is the sum over all processes of what is resident, less that sum at the start.\n",
		count(float64(r.OK)), count(float64(r.Timed)), r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	p.chart("soak-")
}

func (p *page) ablations() {
	for _, x := range p.Ablations.Tables {
		p.heading("One thing changed: " + x.Name)
		p.line("%s The first row is the default; ratios are to it.\n", x.What)
		t := table{head: []string{"setting", "callers", "examples a request", "examples/s", "ratio", "p50 ms", "p99 ms", "CPU s/1,000", "ratio", "memory MiB"}}
		for i := range x.Settings {
			s := &x.Settings[i]
			name := s.Name
			if x.Name == "huge pages" && s.Pages != "" {
				name += " (" + s.Pages + ")"
			}
			if s.Error != "" {
				t.add(name+": did not run", "", "", "", "", "", "", "", "", "")
			}
			for _, l := range x.Loads {
				r, base := s.Of(l), x.Settings[0].Of(l)
				if len(r) == 0 {
					continue
				}
				limited := false
				for _, y := range r {
					limited = limited || y.Client.Limited
				}
				fast, cpu := load.MedianOf(r, ablation.Rate), load.MedianOf(r, ablation.PerThousand)
				t.add(name, fmt.Sprint(l.Callers), fmt.Sprint(l.Rows), rate(fast, limited), ratio(fast, load.MedianOf(base, ablation.Rate)), fmt.Sprintf("%.2f", load.MedianOf(r, ablation.P50)),
					fmt.Sprintf("%.2f", load.MedianOf(r, ablation.P99)), figure("%.4f", cpu), ratio(cpu, load.MedianOf(base, ablation.PerThousand)), figure("%.0f", s.MemoryMiB))
			}
		}
		t.write(&p.b)
		p.chart(ablationFile(x.Name))
	}
}
