package ablation

import (
	"fmt"
	"slices"
	"strings"

	"rankd/bench/load"
)

// Rate, P50, P99 and PerThousand are figures of a result.
func Rate(r *load.Result) float64 { return r.ExampleRate }

// P50 is described at Rate.
func P50(r *load.Result) float64 { return r.Latency.P50 }

// P99 is described at Rate.
func P99(r *load.Result) float64 { return r.Latency.P99 }

// PerThousand is described at Rate; 0: not measured.
func PerThousand(r *load.Result) float64 {
	if r.Server == nil {
		return 0
	}
	return r.Server.PerThousand
}

// Summary is the tables for people.
func (f *File) Summary() string {
	var b strings.Builder
	for _, t := range f.Tables {
		if !slices.ContainsFunc(t.Settings, func(s Setting) bool { return s.Error != "" || len(s.Results) > 0 }) {
			continue // the run was interrupted before it
		}
		fmt.Fprintf(&b, "%s: %s\n", t.Name, t.What)
		fmt.Fprintf(&b, "  %-20s %8s %9s %12s %9s %9s %14s\n", "", "callers", "examples", "examples/s", "p50 ms", "p99 ms", "CPU s/1,000 ex")
		for i := range t.Settings {
			s := &t.Settings[i]
			if s.Error != "" {
				fmt.Fprintf(&b, "  %-20s %s\n", s.Name, s.Error)
			}
			for _, l := range t.Loads {
				if r := s.Of(l); len(r) > 0 {
					fmt.Fprintf(&b, "  %-20s %8d %9d %12.0f %9.2f %9.2f %14.4f\n", s.Name, l.Callers, l.Rows, load.MedianOf(r, Rate), load.MedianOf(r, P50), load.MedianOf(r, P99), load.MedianOf(r, PerThousand))
				}
			}
		}
	}
	for _, line := range f.NotDone {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
