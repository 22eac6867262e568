package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"rankd/bench/capacity"
	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// closed is a run of a server that does up to most examples a second.
func closed(callers, rows int, most float64) *load.Result {
	offered := float64(callers*rows) * 900
	rate := min(offered, most)
	wait := 1.1 * offered / rate
	return &load.Result{
		Schema: load.Schema, Mode: load.Closed, Callers: callers, Rows: rows, Executor: "sim", Simulated: true, Verified: true,
		Timed: 10_000, OK: 10_000, ExampleRate: rate, RequestRate: rate / float64(rows),
		Latency: load.Latency{P50: wait, P99: 3 * wait, Max: 5 * wait},
		Client:  load.Client{Share: rate / 40_000},
		Server:  &load.Server{PerThousand: 1000 / most},
	}
}

// write makes a directory of results with an arm for each entry.
func write(t *testing.T, arms map[string]float64, change func(arm string, f *load.File)) string {
	t.Helper()
	dir := t.TempDir()
	for arm, most := range arms {
		f := &load.File{Schema: load.Schema, Arm: arm, Memory: []monitor.Memory{{PSS: 100 << 20, Hugetlb: 28 << 20}}}
		for _, rows := range []int{1, 16} {
			for _, callers := range []int{1, 4, 16, 64, 256} {
				for range 3 {
					f.Results = append(f.Results, closed(callers, rows, most*(1+float64(rows)/16)))
				}
			}
		}
		open := closed(4, 1, most)
		open.Mode, open.Callers, open.Rate = load.Poisson, 0, most/2
		f.Results = append(f.Results, open, open)
		if change != nil {
			change(arm, f)
		}
		if err := os.Mkdir(filepath.Join(dir, arm), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := load.WriteJSON(filepath.Join(dir, arm, "closed.json"), f); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, arm, "a.monitor.json"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func report(t *testing.T, dir string) string {
	t.Helper()
	path, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wants(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
}

func TestReportHasTheFigures(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000, "py-mp": 2_000, "cpp-batch": 12_000}, nil)
	if err := os.WriteFile(filepath.Join(dir, "env.txt"), []byte("2 processors of some kind\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := capacity.NewFile(1.5)
	c.Servers = []capacity.Server{{Name: "continuous", Capacities: []capacity.Capacity{{Objective: 20, Rate: 9000, Examples: 9000, Failing: 9500}}}}
	if err := load.WriteJSON(filepath.Join(dir, "capacity.json"), c); err != nil {
		t.Fatal(err)
	}
	text := report(t, dir)
	wants(
		t, text, "2 processors of some kind", "**The accelerator is simulated**",
		"| 1 | 25,500 | 1,062 | 2,125 | 12,750 | py-mp | 12.00 × |",
		"| server CPU for 1,000 examples, against the best Python server | 1 | 10.0 × better | 12.0 × | 12.00 × | met, and the stretch too |",
		"| server CPU for 1,000 examples, against the best Python server | 16 | 3.0 × better | 3.5 × | 12.00 × | met, and the stretch too |",
		"| examples/s, p99 at most 20 ms | 1 | 30,126 | 6,081 | 4.95 | 25,500 | 2,125 | py-mp | 12.00 | higher |",
		"| server CPU s/1,000 examples | 16 | 0.059 | 0.084 | 1.42 | 0.021 | – | py-mp-batch | – | not measured |",
		"| rankd | 128 |",
		"| continuous | – | – | 20 ms | 9,000 |", "| 0.0463 |",
		"| rankd | 1 | 12,000 | 47 % |",
		"## Requests that were refused, failed or had no reply (simulated accelerator)\n\nNone.",
	)
	for _, name := range []string{"throughput-20ms", "scaling-1", "scaling-16", "p99-1", "p99-16", "cpu", "memory"} {
		wants(t, text, "]("+name+".svg)")
		checkSVG(t, filepath.Join(dir, name+".svg"))
	}
	if _, err := os.Stat(filepath.Join(dir, "summary.json")); err != nil {
		t.Error(err)
	}
}

// checkSVG wants well-formed XML with something drawn in it, and no background.
func checkSVG(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	shapes := 0
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			shapes++
		}
	}
	if shapes < 5 || bytes.Contains(text, []byte("#FFFFFF")) {
		t.Errorf("%s: got %d shapes, white: %v; want at least 5 and no white", path, shapes, bytes.Contains(text, []byte("#FFFFFF")))
	}
}

func TestI1ArmWithAWrongReplyHasNoFigures(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000}, func(arm string, f *load.File) {
		if arm == "rankd" {
			f.Results[0].OK, f.Results[0].Mismatches, f.Results[0].FirstMismatch = 9_999, 1, "row 3"
		}
	})
	wants(t, report(t, dir), "**rankd gave 1 wrong replies", "row 3", "| 1 | – | 1,062 | py | – |")
}

func TestI2PointsWithLostRequestsAreNoThroughput(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000}, func(_ string, f *load.File) {
		for _, r := range f.Results {
			if r.Callers > 4 {
				r.OK -= 100
				r.Failed = 100
				r.Errors = []load.Error{{Code: "ResourceExhausted", Reason: "queue_full", Text: "full", Count: 100}}
			}
		}
	})
	wants(t, report(t, dir), "| 1 | 3,600 |", "| rankd | closed loop, 64 callers | 1 | ResourceExhausted | queue_full | 100 |")
}

func TestI3LimitedClientsAreMarked(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000}, func(_ string, f *load.File) {
		for _, r := range f.Results {
			r.Client.Limited = r.Callers >= 64
		}
	})
	wants(t, report(t, dir), "| 1 | 25,500* |")
}

func TestI4WorkloadsHavePagesOfTheirOwn(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000}, func(_ string, f *load.File) {
		for _, r := range f.Results {
			r.Workload = exam.SharedUser
		}
	})
	text := report(t, dir)
	wants(
		t, text, "**One user, many candidates** (workload shared-user). The user's inputs came once a request",
		"## Throughput, examples a second (shared-user, simulated accelerator)", "![p99 by throughput, 16 examples a request (shared-user, simulated accelerator)](p99-16.svg)",
		"- Targets and published figures: they are about independent examples.", "| 1 | 25,500 | 1,062 | py | 24.00 × |", "another server is ahead: 0",
	)
	for _, not := range []string{"## Targets", "published figures (", "× better"} {
		if strings.Contains(text, not) {
			t.Errorf("got %q, which is about independent examples", not)
		}
	}
	s := Suite{Schema: load.Schema, Workload: exam.SharedUser, WorkloadIs: "Thirteen of 26.", Arms: []SuiteArm{{Name: "rankd", What: "ours", State: Measured}}}
	if err := load.WriteJSON(filepath.Join(dir, "suite.json"), s); err != nil {
		t.Fatal(err)
	}
	wants(t, report(t, dir), "(workload shared-user). Thirteen of 26.")
	for name, workload := range map[string]string{"named": exam.Independent, "older": ""} {
		other := &load.File{Schema: load.Schema, Arm: "py", Results: []*load.Result{closed(1, 1, 1000)}}
		other.Results[0].Workload = workload
		if err := load.WriteJSON(filepath.Join(dir, "py", "other.json"), other); err != nil {
			t.Fatal(err)
		}
		if _, err := Write(dir); err == nil || !strings.Contains(err.Error(), "other.json") && !strings.Contains(err.Error(), "independent") {
			t.Errorf("%s: got %v, want an error about two workloads", name, err)
		}
	}
}

func TestReportSaysWhereRankdIsBehind(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 2_000, "py": 1_000, "py-mp": 4_000}, func(arm string, f *load.File) {
		if arm == "py" {
			f.Memory[0].Hugetlb = 0
		}
	})
	text := report(t, dir)
	wants(
		t, text, "another server is ahead: 13", "| examples/s, no bound | 16 | 4,000 | py-mp 8,000 |", "| CPU s/1,000 examples | 1 | 0.4706 | py-mp 0.2353 |",
		"| memory at the peak, MiB |  | 128 | py 100 |", "| 1 | 8.0 × better | 20.0 × | 0.50 × | missed |",
	)
	if strings.Contains(text, "py-mp 8,000, ") || strings.Contains(text, "| py 2,000") {
		t.Error("the slower server is in the list")
	}
}

func TestNoLoadWithinTheBoundIsAMissedTarget(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000}, func(arm string, f *load.File) {
		for _, r := range f.Results {
			if arm == "rankd" {
				r.Latency.P99 = 100
			}
		}
	})
	wants(t, report(t, dir), "| 1 | 8.0 × better | 20.0 × | no load kept the bound | missed |", "| examples/s, p99 at most 20 ms | 1 | – | py 1,062 |", "py | – | **lower**: rankd has none |")
}

func TestArmsThatWereLeftOutAreOnThePage(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000}, nil)
	s := Suite{Schema: load.Schema, Arms: []SuiteArm{{Name: "rankd", What: "ours", State: Measured}, {Name: "cpp-batch", What: "theirs", State: LeftOut, Why: "no compiler: install g++\nmore"}}}
	if err := load.WriteJSON(filepath.Join(dir, "suite.json"), s); err != nil {
		t.Fatal(err)
	}
	wants(t, report(t, dir), "| cpp-batch | theirs | left out: no compiler: install g++ |", "- cpp-batch: left out: no compiler: install g++", "- Soak: rankd bench soak.")
}

func TestSweepsAndNullAreApart(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000, "null": 100_000}, func(arm string, f *load.File) {
		f.Variant = "2x1"
		for _, r := range f.Results {
			if r.Mode == load.Poisson {
				r.Share, r.Latency.P99 = 0.8, 2
			}
		}
	})
	sweep := &load.File{Schema: load.Schema, Arm: "rankd", Variant: "1x1", Sweep: true, Results: []*load.Result{closed(64, 1, 90_000)}}
	if err := load.WriteJSON(filepath.Join(dir, "rankd", "sweep.json"), sweep); err != nil {
		t.Fatal(err)
	}
	text := report(t, dir)
	wants(
		t, text, "| rankd | 1 | 1 × 1 | 64 | 57,600 |", "| does nothing | 1 |", "| 1 | 25,500 | 1,062 | py |",
		"| open loop at 80 % of the peak: spread of p99 over repeats, above the machine's own | 1 | at most 5 % |  | +0 % (0 % against 0 %) | met |",
	)
	if strings.Contains(text, "90,000") || strings.Contains(text, "| null |") {
		t.Error("a sweep or the server that does nothing is among the figures")
	}
}

func TestVariantsAreNotMixed(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000}, func(_ string, f *load.File) { f.Variant = "2x1" })
	other := &load.File{Schema: load.Schema, Arm: "rankd", Variant: "1x2", Results: []*load.Result{closed(256, 1, 50_000)}}
	if err := load.WriteJSON(filepath.Join(dir, "rankd", "other.json"), other); err != nil {
		t.Fatal(err)
	}
	r, err := Collect(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := pick(r.Figures(), "rankd", 1)
	if f.Variant != "1x2" || f.Peak != 50_000 || f.P50 != 0 {
		t.Errorf("got %+v, want the figures of the variant 1x2 alone", f)
	}
}

func TestNothingMeasuredIsAnError(t *testing.T) {
	if _, err := Write(t.TempDir()); err == nil {
		t.Error("an empty directory: got no error")
	}
	dir := write(t, map[string]float64{"rankd": 1}, nil)
	if err := os.WriteFile(filepath.Join(dir, "rankd", "broken.json"), []byte(`{"schema":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir); err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestMarksAreRoundNumbers(t *testing.T) {
	labels := func(list []plot.Tick) (text string) {
		for _, x := range list {
			if x.Label != "" {
				text += x.Label + " "
			}
		}
		return text
	}
	for _, x := range []struct {
		low, high float64
		want      string
	}{
		{0, 28_000, "0 5,000 10,000 15,000 20,000 25,000 "},
		{0, 0.9, "0.0 0.2 0.4 0.6 0.8 "},
		{0, 0.0932, "0.00 0.02 0.04 0.06 0.08 "},
		{0, 4_700, "0 1,000 2,000 3,000 4,000 "},
	} {
		if got := labels((even{}).Ticks(x.low, x.high)); got != x.want {
			t.Errorf("%v to %v: got %q, want %q", x.low, x.high, got, x.want)
		}
	}
	if got := labels((decades{}).Ticks(2, 100)); got != "2 5 10 20 50 100 " {
		t.Errorf("got %q", got)
	}
	if got := labels((decades{}).Ticks(0.5, 5000)); got != "1 10 100 1,000 " {
		t.Errorf("got %q", got)
	}
	if a, b := roundLog(3.9, math.Floor), roundLog(84, math.Ceil); a != 2 || b != 100 {
		t.Errorf("got %v and %v, want 2 and 100", a, b)
	}
}

func TestCountsHaveSeparators(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 1234567.4: "1,234,567", -1234: "-1,234"} {
		if got := count(v); got != want {
			t.Errorf("count %v: got %s, want %s", fmt.Sprint(v), got, want)
		}
	}
}
