package supervisor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"rankd/internal/config"
)

// main is the line that stands for a chart in text.
func (c *chart) main() line {
	if c.Title == "Latency" {
		return c.Lines[1] // p99
	}
	return c.Lines[0]
}

// sparks are the heights of a line of text that is a chart.
var sparks = []rune("▁▂▃▄▅▆▇█")

// textWidth is the number of signs of such a line.
const textWidth = 60

// Spark draws values as a line of text, at most width signs, scaled to the largest.
func Spark(values []float64, width int) string {
	values = values[max(0, len(values)-width):]
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 {
			i = int(v / top * float64(len(sparks)-1))
		}
		b.WriteRune(sparks[i])
	}
	return b.String()
}

// WriteText writes the status for people in a terminal. history may be empty.
func (st *Status) WriteText(out io.Writer, history []Sample, now time.Time) error {
	v := newView(st, history, now)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	state := v.State()
	if !st.Ready {
		state += ": " + st.Reason
	}
	fmt.Fprintf(w, "rankd %s version %s: %s (%s)\n", st.Model.Name, st.Model.Version, state, st.Phase)
	fmt.Fprintf(w, "%s, instance %s, up %v, %s\n\n", st.Listen, st.Instance, now.Sub(st.StartedAt).Round(time.Second), st.Executor)
	for _, c := range v.Charts() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Title, c.Now, Spark(c.main().Values, textWidth))
	}
	fmt.Fprintf(w, "\nstage\tcount\tp50\tp99\n")
	for _, s := range st.Traffic.Stages {
		if s.Count > 0 {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", s.Stage, s.Count, nanoseconds(s.P50), nanoseconds(s.P99))
		}
	}
	fmt.Fprintf(w, "\nprocess\tpid\tstate\tup\tcores\tmemory\trestarts\tconnections\tlast end\n")
	for _, p := range st.Processes {
		fmt.Fprintln(w, p.row(now))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nrequests since the start:")
	some := v.Outcomes()
	for _, name := range sortedNames(some) {
		fmt.Fprintf(&b, " %s %d", name, some[name])
	}
	b.WriteString("\n")
	if st.Tables != nil {
		fmt.Fprintf(&b, "tables: %s, %s\n", sizeWords(st.Tables.Bytes), st.Tables.Pages)
	}
	if len(st.Events) > 0 {
		b.WriteString("\nlately:\n")
		for _, e := range st.Events[:min(8, len(st.Events))] {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// row is a process in a table of tabs.
func (p *ProcessStatus) row(now time.Time) string {
	pid, up, connections := "–", "–", "–"
	if p.PID != 0 {
		pid, up = fmt.Sprint(p.PID), now.Sub(p.StartedAt).Round(time.Second).String()
	}
	name := p.Role
	if p.Role == roleFrontend {
		name += fmt.Sprint(" ", p.Index)
		connections = fmt.Sprint(p.Connections)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f\t%s\t%d\t%s\t%s", name, pid, p.State, up, p.Cores, sizeWords(p.Anon), p.Restarts, connections, p.LastEnd)
}

func sortedNames(m map[string]uint64) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// sizeWords writes bytes with two digits behind the point from a GiB on.
func sizeWords(n int64) string {
	if n < 1<<30 {
		return config.Bytes(n).Human()
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}
