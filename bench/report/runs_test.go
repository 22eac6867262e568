package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/bench/overload"
	"rankd/bench/soak"
)

// everything is a directory with results of all kinds, in which every field that a page shows has a value.
func everything(t *testing.T) string {
	t.Helper()
	dir := write(t, map[string]float64{"rankd": 24_000, "py": 1_000, "cpp-batch": 30_000, "null": 100_000}, func(arm string, f *load.File) {
		f.Variant, f.Sizes = "2x1", &load.Sizes{Tables: 20 << 20, Region: 3 << 20, Frontends: 2}
		for i, r := range f.Results {
			r.Latency.Mean, r.Latency.P90, r.Latency.P95, r.Latency.P999 = 1, 2, 3, 4
			r.Client = load.Client{Share: 0.2, Busiest: 0.3 + float64(i)/100, PerCall: 7, Limited: i == 3}
			r.Seconds = []load.Second{{Second: 1, OK: 9}}
			if arm == "py" && i%2 == 0 {
				r.OK, r.Failed, r.NoReply = r.OK-3, 2, 1
				r.Errors = []load.Error{{Code: "Unavailable", Text: "gone", Count: 2}}
			}
			if r.Mode == load.Poisson {
				r.Share, r.Latency.P99 = 0.8, 2+float64(i)
			}
		}
	})
	sweep := &load.File{Schema: load.Schema, Arm: "rankd", Variant: "1x1", Sweep: true, Results: []*load.Result{closed(64, 1, 90_000)}}
	put := func(v any, path ...string) {
		if err := load.WriteJSON(filepath.Join(append([]string{dir}, path...)...), v); err != nil {
			t.Fatal(err)
		}
	}
	put(sweep, "rankd", "sweep.json")
	writeTrials(t, dir)
	over := &overload.File{}
	if found, err := readFile(filepath.Join(dir, overload.Name), over, &over.Schema); !found || err != nil {
		t.Fatal(found, err)
	}
	s := &over.Scenarios[1]
	s.Alone, s.Readers, s.Memory = closed(1, 1, 500), &overload.ReaderCounts{Begun: 9, Taken: 4, Open: 5}, []monitor.Memory{{At: "start", PSS: 5 << 20}, {At: "peak", PSS: 9 << 20}}
	s.Samples = []gauges.Sample{{At: 1, PendingRows: 5, Calls: 90}, {At: 2, PendingRows: 50, Calls: 9, ReturnBytes: 7, Stalls: 3, Restarts: 1}}
	put(over, overload.Name)
	long := &soak.File{Schema: load.Schema, Minutes: 3, Result: closed(1, 1, 900)}
	long.Result.Mode, long.Result.Rate = load.Poisson, 900
	for i := range 180 {
		long.Result.Seconds = append(long.Result.Seconds, load.Second{Second: i, OK: 900, P50: 1 + float64(i%7)/10, P99: 3 + float64(i%5)})
		long.Samples = append(long.Samples, gauges.Sample{At: float64(i), PendingRows: float64(i % 3), Calls: 4, RSS: int64(i) << 16})
	}
	put(long, soak.Name)
	put(Suite{Schema: load.Schema, Duration: 3, Repeats: 3, PricePerHour: 0.1, Arms: []SuiteArm{{Name: "rankd", What: "ours", State: Measured}}}, "suite.json")
	if err := os.WriteFile(filepath.Join(dir, "env.txt"), []byte("cpu  fast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestI5PublishedRunsGiveTheSamePageAndCharts(t *testing.T) {
	dir, published := everything(t), t.TempDir()
	report(t, dir)
	for _, name := range []string{RunsName, "suite.json", "env.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(published, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report(t, published)
	made, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(made) < 12 {
		t.Fatalf("got %d charts, %v, want those of everything", len(made), err)
	}
	for _, path := range append(made, filepath.Join(dir, "REPORT.md"), filepath.Join(dir, "summary.json"), filepath.Join(dir, RunsName)) {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(published, filepath.Base(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got another one from what is published, %v:\n%s", filepath.Base(path), err, difference(string(got), string(want)))
		}
	}
}

// difference is the first line in which two texts differ.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "got  " + a[i] + "\nwant " + b[i]
		}
	}
	return "got as many lines as are equal"
}

func TestI5ResultsGoBeforeWhatWasPublished(t *testing.T) {
	dir := write(t, map[string]float64{"rankd": 24_000}, nil)
	if err := os.WriteFile(filepath.Join(dir, RunsName), []byte(`{"schema":1,"arms":[{"name":"py","files":[{"results":[{"mode":"closed","callers":1,"timed":1,"ok":1}]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Collect(dir)
	if err != nil || len(r.Arms) != 1 || r.Arms[0].Name != "rankd" {
		t.Errorf("got %v, %v, want rankd alone", r, err)
	}
}
