package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

// screen is the program's model.
type screen struct {
	ctx     context.Context
	address string
	every   time.Duration
	last    *Reading // nil: none yet
	err     error    // of the last attempt
	width   int
	height  int
}

type (
	arrived struct {
		reading *Reading
		err     error
	}
	due struct{}
)

// Run shows the server until q or Ctrl-C is pressed or ctx ends.
func Run(ctx context.Context, address string, every time.Duration, in io.Reader, out io.Writer) error {
	first, err := Read(ctx, address)
	if err != nil {
		return err
	}
	s := screen{ctx: ctx, address: address, every: every, last: first, width: 80, height: 24}
	_, err = tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen()).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil // it was asked to
	}
	return err
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return s.wait() }

func (s screen) wait() tea.Cmd { return tea.Tick(s.every, func(time.Time) tea.Msg { return due{} }) }

// Update implements tea.Model.
func (s screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyMsg:
		switch m.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case due:
		return s, func() tea.Msg {
			r, err := Read(s.ctx, s.address)
			return arrived{r, err}
		}
	case arrived:
		if s.err = m.err; m.err == nil {
			s.last = m.reading
		}
		return s, s.wait()
	}
	return s, nil
}

var (
	good  = lipgloss.NewStyle().Foreground(lipgloss.AdaptiveColor{Light: "#11703a", Dark: "#5fd08a"}).Bold(true)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.AdaptiveColor{Light: "#b3261e", Dark: "#ff8a80"}).Bold(true)
	quiet = lipgloss.NewStyle().Faint(true)
)

// View implements tea.Model (I2).
func (s screen) View() string {
	var b strings.Builder
	if err := s.last.Status.WriteText(&b, s.last.Samples, s.last.At); err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	foot := quiet.Render("q: quit    " + s.last.At.Format(time.TimeOnly) + "    http://" + s.address + "/statusz")
	if s.err != nil { // I1
		foot = bad.Render(fmt.Sprintf("no answer since %s: %v", s.last.At.Format(time.TimeOnly), s.err))
	}
	lines = lines[:min(len(lines), max(s.height-1, 0))]
	for i := range lines {
		lines[i] = coloured(cut(lines[i], s.width), i)
	}
	return strings.Join(append(lines, lipgloss.NewStyle().MaxWidth(max(s.width, 1)).Render(foot)), "\n")
}

// cut shortens a line to so many columns.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:max(width, 0)])
	}
	return line
}

// coloured gives a line of the text its colour, by what it says.
func coloured(line string, i int) string {
	switch {
	case i == 0 && strings.Contains(line, ": ready"), i == 0 && strings.Contains(line, " ready ("):
		return good.Render(line)
	case i == 0, strings.Contains(line, " ERROR "):
		return bad.Render(line)
	case strings.HasPrefix(line, "stage ") || strings.HasPrefix(line, "process ") || line == "lately:":
		return quiet.Render(line)
	}
	return line
}
