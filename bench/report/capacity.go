package report

import (
	"fmt"
	"strings"

	"rankd/bench/capacity"
)

func (p *page) capacities() {
	if len(p.Capacity) == 0 {
		return
	}
	p.heading("Capacity: the highest rate at which every timed request was answered within the objective, in every repeat")
	t := table{head: []string{"server", "frontends", "threads of each", "objective", "requests/s", "examples/s", "fails at", "p50 ms", "p99 ms", "CPU s/1,000 examples"}}
	if p.Price > 0 {
		t.head = append(t.head, "cost of a million requests")
	}
	for _, s := range p.Capacity {
		for _, c := range s.Capacities {
			cells := []string{
				s.Name, s.Processes(), figure("%.0f", float64(s.Threads)), fmt.Sprintf("%.0f ms", c.Objective), rate(c.Rate, c.ClientLimited), rate(c.Examples, c.ClientLimited), rate(c.Failing, false),
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
	p.chart("capacity")
	p.tails()
}

// tails is latency by offered rate.
func (p *page) tails() {
	p.line("Latency by offered rate; failed and no reply are the worst of the repeats:\n")
	t := table{head: []string{"server", "requests/s", "repeats", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "failed", "no reply", "refusals"}}
	for _, s := range p.Capacity {
		for _, x := range s.Points {
			q := Point{Repeats: x.Results}
			var failed, noReply uint64
			top, most := 0.0, 0.0
			reasons := map[string]bool{}
			for _, r := range x.Results {
				failed, noReply = max(failed, r.Failed), max(noReply, r.NoReply)
				top, most = max(top, r.Latency.Max), max(most, r.Latency.P999)
				for _, e := range r.Errors {
					if e.Reason != "" {
						reasons[e.Reason] = true
					} else {
						reasons[e.Code] = true
					}
				}
			}
			t.add(s.Name, rate(x.Rate, q.Limited()), fmt.Sprint(len(x.Results)), fmt.Sprintf("%.2f", q.P50()), fmt.Sprintf("%.2f", q.P99()), fmt.Sprintf("%.2f", most),
				fmt.Sprintf("%.1f", top), count(float64(failed)), count(float64(noReply)), strings.Join(sorted(reasons), " "))
		}
	}
	t.write(&p.b)
}
