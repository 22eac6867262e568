package report

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"rankd/bench/ablation"
	"rankd/bench/capacity"
	"rankd/bench/load"
	"rankd/bench/overload"
)

func TestServersHaveALookOfTheirOwnInAllCharts(t *testing.T) {
	seen := map[string]string{}
	for _, a := range looks {
		key := fmt.Sprint(a.look.colour, reflect.TypeOf(a.look.shape))
		if other := seen[key]; other != "" {
			t.Errorf("%s looks as %s does", a.name, other)
		}
		seen[key] = a.name
		if lookOf(a.name).colour != a.look.colour {
			t.Errorf("%s: got another colour", a.name)
		}
	}
}

// No text of a chart may end outside of it: names and titles were cut.
func TestLongNamesAndTitlesFit(t *testing.T) {
	p := newPlot("Throughput by callers, 128 examples a request (shared-user, simulated accelerator, smoke run)", "callers", "examples a second")
	l := newLegend()
	l.TextStyle = p.Legend.TextStyle
	short := l.width()
	l.names = []string{"py-mp-batch-shared"}
	if room := l.width() - short; room < l.TextStyle.Width("py-mp-batch-shared") {
		t.Errorf("got %v for the longest name, want its width %v", room, l.TextStyle.Width("py-mp-batch-shared"))
	}
	const room = 5 * vg.Inch
	style := p.Title.TextStyle
	for _, title := range []string{p.Title.Text, "Throughput by callers, 1 example a request (simulated accelerator)", strings.TrimSpace(strings.Repeat("word ", 14))} {
		for _, line := range strings.Split(fitted(title, style, room), "\n") {
			if style.Width(line) > room {
				t.Errorf("%q: got %v wide, want at most %v", line, style.Width(line), room)
			}
		}
		if got := strings.Join(strings.Fields(fitted(title, style, room)), " "); got != strings.Join(strings.Fields(title), " ") {
			t.Errorf("got words %q of %q", got, title)
		}
	}
}

// writeTrials writes results of every trial but the soak into a directory.
func writeTrials(t *testing.T, dir string) {
	t.Helper()
	result := func(rate float64, ok, refused uint64) *load.Result {
		r := &load.Result{Mode: load.Fixed, Rate: rate, Callers: 4, Rows: 1, Timed: ok + refused, OK: ok, ExampleRate: rate, Simulated: true}
		r.Latency.P99 = rate / 100
		if refused > 0 {
			r.Errors = []load.Error{{Code: "ResourceExhausted", Reason: "frontend_pending_full", Count: refused}}
		}
		return r
	}
	server := func(name string, frontends ...int) capacity.Server {
		return capacity.Server{
			Name: name, Frontends: frontends, Threads: 3, Capacities: []capacity.Capacity{{Objective: 1000, Rate: 2000}, {Objective: 20, Rate: 1000}},
			Points: []capacity.Point{{Rate: 1000, Results: []*load.Result{result(1000, 10, 0)}}, {Rate: 2000, Results: []*load.Result{result(2000, 10, 0)}}, {Rate: 4000, Results: []*load.Result{result(4000, 10, 5)}}},
		}
	}
	file := capacity.NewFile(0)
	file.Servers = []capacity.Server{server("continuous", 2), server("two half servers", 1, 1)}
	write := func(name string, v any) {
		if err := load.WriteJSON(filepath.Join(dir, name), v); err != nil {
			t.Fatal(err)
		}
	}
	write("capacity.json", file)
	over := &overload.File{Schema: load.Schema, Scenarios: []overload.Scenario{{Name: "device, small queue", Result: result(300, 100, 200), After: result(20, 40, 0)}, {Name: "slow readers", Result: result(300, 300, 0), After: result(20, 40, 0)}}}
	write(overload.Name, over)
	at, busy := ablation.Load{Callers: 4, Rows: 1}, ablation.Load{Callers: 64, Rows: 1}
	both := func(rate float64) []*load.Result {
		list := []*load.Result{result(rate, 1, 0), result(2*rate, 1, 0)}
		list[1].Callers = 64
		return list
	}
	write(ablation.Name, &ablation.File{Schema: load.Schema, Tables: []*ablation.Table{{
		Name: "huge pages", Loads: []ablation.Load{at, busy},
		Settings: []ablation.Setting{{Name: "huge", Results: both(100)}, {Name: "small", Results: both(50)}},
	}}})
}

func TestTrialsHaveCharts(t *testing.T) {
	dir := t.TempDir()
	writeTrials(t, dir)
	text := report(t, dir)
	for file, names := range map[string][]string{
		"capacity.svg": {"continuous", "two half servers", "every reply within 20 ms"}, "capacity-latency.svg": {"continuous", "20 ms"},
		"overload.svg": {"device, small queue", "frontend_pending_full", "answered", "none"}, "ablation-huge-pages.svg": {"huge", "small", "4 callers, 1 example a request", "50 (0.50 ×)"},
	} {
		wants(t, text, "]("+file+")")
		checkSVG(t, filepath.Join(dir, file))
		picture, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if !strings.Contains(string(picture), n) {
				t.Errorf("%s: got no %q in it", file, n)
			}
		}
	}
	wants(t, text, "| continuous | 2 | 3 |", "| two half servers | 2 × 1 | 3 |")
}

func TestSmokeRunsSayThatTheyAre(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 2000}, nil)
	if text := report(t, dir); strings.Contains(text, "smoke run") {
		t.Error("no suite: got a smoke run")
	}
	for _, c := range []struct {
		seconds float64
		rows    int64
		want    bool
	}{{0.8, 1000, true}, {3, 1000, false}, {0.8, 850_000, false}} {
		if err := load.WriteJSON(filepath.Join(dir, "suite.json"), &Suite{Schema: load.Schema, Duration: c.seconds, MaxVocab: c.rows}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(report(t, dir), "**This is a smoke run**"); got != c.want {
			t.Errorf("%v s, %d rows: got smoke run %v, want %v", c.seconds, c.rows, got, c.want)
		}
	}
}
