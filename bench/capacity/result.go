package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankd/bench/load"
)

// File is what the command writes.
type File struct {
	Schema       int      `json:"schema"` // load.Schema
	PricePerHour float64  `json:"price_per_hour,omitempty"`
	Servers      []Server `json:"servers"`
}

// Server is one server, or one policy of it.
type Server struct {
	Name       string     `json:"name"`
	Flags      []string   `json:"flags,omitempty"`     // that it was started with
	Frontends  []int      `json:"frontends,omitempty"` // of each of its processes that share the load; none: not known
	Threads    int        `json:"threads,omitempty"`   // that each frontend runs at once; 0: not known
	Capacities []Capacity `json:"capacities"`
	Points     []Point    `json:"points"`
}

// Processes are the numbers of frontends for a table.
func (s *Server) Processes() string {
	switch n := len(s.Frontends); n {
	case 0:
		return "–"
	case 1:
		return strconv.Itoa(s.Frontends[0])
	default:
		return fmt.Sprintf("%d × %d", n, s.Frontends[0])
	}
}

// NewFile starts an empty one.
func NewFile(pricePerHour float64) *File {
	return &File{Schema: load.Schema, PricePerHour: pricePerHour}
}

// Without is an error that names servers of which no rate passed within any objective: they have no capacity, or do not work.
func (f *File) Without() error {
	var errs []error
	for i := range f.Servers {
		s := &f.Servers[i]
		if !slices.ContainsFunc(s.Capacities, func(c Capacity) bool { return c.Rate > 0 }) {
			errs = append(errs, fmt.Errorf("%s: no rate passed within any objective, %d rates were offered", s.Name, len(s.Points)))
		}
	}
	return errors.Join(errs...)
}

// CostPerMillion is the cost of a million requests at a capacity, for a machine with a price an hour.
func CostPerMillion(pricePerHour, rate float64) float64 { return pricePerHour / (rate * 3600) * 1e6 }

// Summary is the result for people.
func (f *File) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %12s %14s %14s %12s %9s %9s %14s\n", "server", "within ms", "requests/s", "examples/s", "failed at", "p50 ms", "p99 ms", "CPU s/1,000 ex")
	for _, s := range f.Servers {
		for _, c := range s.Capacities {
			failing, note := "-", ""
			if c.Failing > 0 {
				failing = fmt.Sprintf("%.0f", c.Failing)
			}
			if c.ClientLimited {
				note = "  at least: the client was the limit"
			}
			if c.Rate == 0 {
				note = "  no rate passed" + note
			}
			if f.PricePerHour > 0 && c.Rate > 0 {
				note += fmt.Sprintf("  %.4g a million requests", CostPerMillion(f.PricePerHour, c.Rate))
			}
			fmt.Fprintf(&b, "%-16s %12.0f %14.0f %14.0f %12s %9.2f %9.2f %14.4f%s\n", s.Name, c.Objective, c.Rate, c.Examples, failing, c.P50, c.P99, c.PerThousand, note)
		}
	}
	for _, s := range f.Servers {
		fmt.Fprintf(&b, "\n%s, by offered rate (the worst of the repeats)\n%14s %10s %10s %10s %8s %8s %8s  %s\n", s.Name,
			"requests/s", "p50 ms", "p99 ms", "max ms", "failed", "no reply", "client", "refusals")
		for _, p := range s.Points {
			b.WriteString(p.line())
		}
	}
	return b.String()
}

// line is the worst of the repeats.
func (p *Point) line() string {
	var l load.Latency
	var failed, noReply uint64
	share := 0.0
	why := map[string]bool{}
	var reasons []string
	for _, r := range p.Results {
		l.P50, l.P99, l.Max = max(l.P50, r.Latency.P50), max(l.P99, r.Latency.P99), max(l.Max, r.Latency.Max)
		failed, noReply = max(failed, r.Failed), max(noReply, r.NoReply)
		share = max(share, r.Client.Share, r.Client.Busiest)
		for _, e := range r.Errors {
			name := e.Code
			if e.Reason != "" {
				name = e.Reason
			}
			if !why[name] {
				why[name] = true
				reasons = append(reasons, name)
			}
		}
	}
	return fmt.Sprintf("%14.0f %10.2f %10.2f %10.2f %8d %8d %7.0f%%  %s\n", p.Rate, l.P50, l.P99, l.Max, failed, noReply, 100*share, strings.Join(reasons, " "))
}
