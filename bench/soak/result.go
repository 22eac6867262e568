package soak

import (
	"fmt"
	"strings"

	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/bench/monitor"
)

// Name is the file of a result in a directory of results.
const Name = "soak.json"

// settle is how long after the start a server may still change.
const settle = 20.0

// File is what the command writes.
type File struct {
	Schema  int              `json:"schema"` // load.Schema
	Minutes float64          `json:"minutes"`
	Flags   []string         `json:"flags,omitempty"`
	Result  *load.Result     `json:"result"`
	Samples []gauges.Sample  `json:"samples"`
	Missed  int              `json:"missed_samples"`
	Memory  []monitor.Memory `json:"memory,omitempty"`
	Fits    []Fit            `json:"fits"`
}

// Analyse fits lines to everything in the file.
func (f *File) Analyse() {
	of := func(value func(*gauges.Sample) float64) (list []point) {
		for i := range f.Samples {
			list = append(list, point{f.Samples[i].At, value(&f.Samples[i])})
		}
		return list
	}
	var p50, p99 []point
	for _, s := range f.Result.Seconds {
		if s.OK > 0 {
			at := f.Result.Warmup + float64(s.Second)
			p50, p99 = append(p50, point{at, s.P50}), append(p99, point{at, s.P99})
		}
	}
	memory := of(func(s *gauges.Sample) float64 { return float64(s.RSS-f.Samples[0].RSS) / (1 << 20) })
	half := settle
	if n := len(memory); n > 0 {
		half = max(settle, memory[n-1].at/2)
	}
	f.Fits = []Fit{
		fit("rows that wait", "rows", of(func(s *gauges.Sample) float64 { return s.PendingRows }), settle),
		fit("open calls", "calls", of(func(s *gauges.Sample) float64 { return s.Calls }), settle),
		fit("replies not taken", "bytes", of(func(s *gauges.Sample) float64 { return s.ReturnBytes }), settle),
		fit("p50, each second", "ms", p50, settle),
		fit("p99, each second", "ms", p99, settle),
		fitMemory("memory more than at the start", memory, settle),
		fitMemory("the same in the second half", memory, half),
	}
}

// Summary is the result for people.
func (f *File) Summary() string {
	var b strings.Builder
	b.WriteString(f.Result.Summary())
	for i := range f.Fits {
		fmt.Fprintf(&b, "  %s\n", f.Fits[i].String())
	}
	if f.Missed > 0 {
		fmt.Fprintf(&b, "  the status page did not answer %d times\n", f.Missed)
	}
	return b.String()
}
