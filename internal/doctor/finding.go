package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"rankd/internal/config"
)

// State says how bad a finding is.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn" // a server runs, but worse or at a risk
	Fail State = "fail" // a server does not start
)

// Finding is what one check found.
type Finding struct {
	Group    string   `json:"group"`
	Check    string   `json:"check"`
	State    State    `json:"state"`
	Found    string   `json:"found"`              // what is there
	Change   string   `json:"change,omitempty"`   // what to change, unless it is right
	Commands []string `json:"commands,omitempty"` // what changes it, to be run in this order
}

// Report is all findings.
type Report struct {
	Findings []Finding
}

// Add appends findings of a group.
func (r *Report) Add(group string, list ...Finding) {
	for _, f := range list {
		f.Group = group
		r.Findings = append(r.Findings, f)
	}
}

// Count says how many findings have a state.
func (r *Report) Count(s State) (n int) {
	for _, f := range r.Findings {
		if f.State == s {
			n++
		}
	}
	return n
}

// MarshalJSON gives the findings and how many there are of each state.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		OK       int       `json:"ok"`
		Warn     int       `json:"warn"`
		Fail     int       `json:"fail"`
		Findings []Finding `json:"findings"`
	}{r.Count(OK), r.Count(Warn), r.Count(Fail), r.Findings})
}

const (
	checkColumn = 24  // letters of a check's name
	textWidth   = 100 // letters of a line
)

// WriteText writes a table for people.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	group := ""
	for _, f := range r.Findings {
		if f.Group != group {
			if group != "" {
				b.WriteString("\n")
			}
			group = f.Group
			b.WriteString(group + "\n")
		}
		f.write(&b)
	}
	fmt.Fprintf(&b, "\n%d ok, %d warnings, %d failures\n", r.Count(OK), r.Count(Warn), r.Count(Fail))
	_, err := io.WriteString(out, b.String())
	return err
}

func (f *Finding) write(b *strings.Builder) {
	indent := strings.Repeat(" ", 8+checkColumn)
	head := fmt.Sprintf("  %-4s  %-*s", f.State, checkColumn, f.Check)
	for _, line := range wrap(f.Found, textWidth-len(indent)) {
		fmt.Fprintf(b, "%s%s\n", head, line)
		head = indent
	}
	for i, line := range wrap(f.Change, textWidth-len(indent)-3) {
		mark := "   "
		if i == 0 {
			mark = "-> "
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, mark, line)
	}
	for _, c := range f.Commands {
		fmt.Fprintf(b, "%s   $ %s\n", indent, c)
	}
}

// wrap is config.Wrap that keeps line breaks. Lines without a word, and so an empty text, are left out.
func wrap(text string, width int) (lines []string) {
	for paragraph := range strings.Lines(text) {
		if strings.TrimSpace(paragraph) != "" {
			lines = append(lines, config.Wrap(paragraph, width)...)
		}
	}
	return lines
}

// ok, warn and fail make findings.
func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, State: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(check, found, change string, commands ...string) Finding {
	return Finding{Check: check, State: Warn, Found: found, Change: change, Commands: commands}
}

func fail(check, found, change string, commands ...string) Finding {
	return Finding{Check: check, State: Fail, Found: found, Change: change, Commands: commands}
}
