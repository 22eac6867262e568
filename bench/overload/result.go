package overload

import (
	"fmt"
	"strings"

	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/bench/monitor"
)

// Name is the file of results in a directory of results.
const Name = "overload.json"

// File is what the command writes.
type File struct {
	Schema    int        `json:"schema"` // load.Schema
	Scenarios []Scenario `json:"scenarios"`
}

// Scenario is one overload.
type Scenario struct {
	Name    string           `json:"name"`
	What    string           `json:"what"`
	Flags   []string         `json:"flags"`
	Alone   *load.Result     `json:"alone,omitempty"` // the bystander without slow readers
	Result  *load.Result     `json:"result"`          // the load, or the bystander beside them
	Readers *ReaderCounts    `json:"slow_readers,omitempty"`
	After   *load.Result     `json:"recovery"`
	Samples []gauges.Sample  `json:"samples"`
	Memory  []monitor.Memory `json:"memory"`             // start, peak, end
	Log     []string         `json:"warnings,omitempty"` // the server's own
}

// ReturnWait says what is known of the time that requests waited for the return budget.
const ReturnWait = "The time that connections waited for the return budget is not recorded by the server yet; how often one waited is."

// Peak is the largest value of everything that was sampled.
func (s *Scenario) Peak() gauges.Sample { return gauges.Max(s.Samples) }

// Recovered reports whether nothing of the light load afterwards was lost.
func (s *Scenario) Recovered() bool {
	return s.After != nil && s.After.Timed > 0 && s.After.OK == s.After.Timed
}

// Refusals are those of the load by name.
func (s *Scenario) Refusals() string {
	var list []string
	for _, e := range s.Result.Errors {
		name := e.Reason
		if name == "" {
			name = e.Code
		}
		list = append(list, fmt.Sprintf("%d %s", e.Count, name))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// Summary is the results for people.
func (f *File) Summary() string {
	var b strings.Builder
	for i := range f.Scenarios {
		s := &f.Scenarios[i]
		p := s.Peak()
		fmt.Fprintf(&b, "%s: %s\n%s", s.Name, s.What, s.Result.Summary())
		fmt.Fprintf(&b, "  refused: %s; without a reply: %d\n", s.Refusals(), s.Result.NoReply)
		fmt.Fprintf(&b, "  at most %.0f rows waiting, %.0f calls open, %.0f bytes of replies not taken, %.0f waits for the return budget\n", p.PendingRows, p.Calls, p.ReturnBytes, p.Stalls)
		for _, m := range s.Memory {
			fmt.Fprintf(&b, "  memory at %s: %.0f MiB\n", m.At, float64(m.Bytes())/(1<<20))
		}
		if s.Readers != nil {
			fmt.Fprintf(&b, "  slow readers: %d calls, %d replies taken, %d ended otherwise, %d open at the end, %d connections ended by the server\n",
				s.Readers.Begun, s.Readers.Taken, s.Readers.Refused, s.Readers.Open, s.Readers.Lost)
		}
		if p.Restarts > 0 {
			fmt.Fprintf(&b, "  %.0f PROCESSES OF THE SERVER ENDED AND WERE STARTED AGAIN\n", p.Restarts)
		}
		for _, line := range s.Log {
			fmt.Fprintf(&b, "  server: %s\n", line)
		}
		fmt.Fprintf(&b, "  afterwards: %d of %d answered\n\n", s.After.OK, s.After.Timed)
	}
	fmt.Fprintln(&b, ReturnWait)
	return b.String()
}
