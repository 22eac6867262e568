package suite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/report"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// small is a comparison of rankd alone that ends in seconds.
func small(t *testing.T, progress *bytes.Buffer) Options {
	t.Helper()
	return Options{
		Name: "test", Platform: Sim, Arms: []string{"rankd"}, ServerCPUs: []int{0}, ClientCPUs: []int{0}, Processes: []int{1, 2}, MaxVocab: 3, IDs: "uniform",
		Duration: 100 * time.Millisecond, Repeats: 2, Callers: []int{1, 4}, Sizes: []int{3}, Source: "../..", WorkDir: t.TempDir(), CacheDir: t.TempDir(),
		Rankd: testutil.Binary(t), Python: "/nonexistent/python", Out: progress, Progress: progress,
	}
}

func run(t *testing.T, o Options, progress *bytes.Buffer) string {
	t.Helper()
	progress.Reset()
	if err := Prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	path, err := Run(context.Background(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// measured counts the points in the progress.
func measured(progress *bytes.Buffer) int {
	return strings.Count(progress.String(), "examples/s")
}

func TestI2InterruptedComparisonGoesOn(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	text := run(t, o, &progress)
	// A sweep of two variants at two loads; two repeats with two closed and two open loops; the server that does nothing, once closed
	// and twice open.
	if got, want := measured(&progress), 2*2+2*(2+2)+1+2; got != want {
		t.Errorf("got %d points, want %d\n%s", got, want, progress.String())
	}
	if !strings.Contains(text, "| rankd | rankd with its defaults | measured |") || !strings.Contains(text, "| does nothing | 3 |") {
		t.Errorf("got the report\n%s", text)
	}
	files, err := filepath.Glob(filepath.Join(o.Results(), "rankd", "[12]x1.x3.r2.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v (%v), want one", files, err)
	}
	run(t, o, &progress)
	if got := measured(&progress); got != 0 {
		t.Errorf("the same again: got %d points, want 0\n%s", got, progress.String())
	}
	f, err := load.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	f.Results = f.Results[1:]
	if err := load.WriteJSON(files[0], f); err != nil {
		t.Fatal(err)
	}
	run(t, o, &progress)
	if got := measured(&progress); got < 1 || got > 7 { // its peak may be another one now, and so the rates of the open loops
		t.Errorf("with one result gone: got %d points, want it and open loops at most\n%s", got, progress.String())
	}
	changed := map[string]func(o *Options){
		"duration": func(o *Options) { o.Duration *= 2 },
		"ids":      func(o *Options) { o.IDs = "zipf:1.05" },
		"model":    func(o *Options) { o.MaxVocab = 4 },
	}
	for name, change := range changed {
		other := o
		change(&other)
		if err := Prepare(context.Background(), other); err != nil {
			t.Fatal(err)
		}
		s, err := newSuite(&other)
		if err == nil {
			err = s.open()
		}
		if err != nil {
			t.Fatal(err)
		}
		a, _ := armByName("rankd")
		for _, v := range other.variants(a) {
			if got := s.read(v, 3, 2, false).Results; len(got) > 0 {
				t.Errorf("another %s: got %d results, want none", name, len(got))
			}
		}
	}
}

// A whole comparison of the other workload; every reply is compared with what its rows must give.
func TestSharedUserIsMeasured(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Workload, o.Processes, o.Repeats, o.Sizes = exam.SharedUser, []int{1}, 1, []int{40, 300} // the second one is looked up in many chunks
	text := run(t, o, &progress)
	for _, want := range []string{
		"**One user, many candidates** (workload shared-user).", "the first 13 of the 26 tables, 37 of the 214 ids of a row, and the dense features",
		"| rankd | rankd with its defaults | measured |", "workload             shared-user", "## All points (shared-user, simulated accelerator)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	s, err := newSuite(&o)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	a, _ := armByName("rankd")
	v := o.variants(a)[0]
	f := s.read(v, 300, 1, false)
	if len(f.Results) == 0 || f.Results[0].OK == 0 || f.Results[0].Workload != exam.SharedUser || !f.Results[0].Verified {
		t.Errorf("got %+v, want verified results of the workload", f)
	}
	s.o.Workload = exam.Independent
	if got := s.read(v, 300, 1, false).Results; len(got) > 0 {
		t.Errorf("another workload: got %d results, want none", len(got))
	}
}

func TestI1ArmThatAnswersWronglyIsNotMeasured(t *testing.T) {
	old := arms
	defer func() { arms = old }()
	arms = append(slices.Clone(arms), arm{"rankd-other", "another score", product, "--sim-verify=full", true, ""})
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Arms, o.Processes, o.Repeats, o.Callers, o.Sizes = []string{"rankd", "rankd-other", "py"}, []int{1}, 1, []int{2}, []int{1}
	if err := Prepare(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	path, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "rankd-other") || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v, want an error about wrong replies", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| rankd | rankd with its defaults | measured |", "| rankd-other | another score | " + report.Wrong, "| py | Python, one process, 8 gRPC threads, each request by itself | left out: its Python packages are missing"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(o.Results(), "rankd-other", "*")); len(found) > 0 {
		t.Errorf("got results %v of an arm that answers wrongly", found)
	}
}

// Rows of int8 give other scores than those of float32: each arm is compared with those of its own model.
func TestArmsOfOtherRowsAreExaminedWithTheirOwnModel(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Arms, o.Processes, o.Repeats, o.Callers = []string{"rankd", "rankd-int8"}, []int{1}, 1, []int{2}
	text := run(t, o, &progress)
	if !strings.Contains(text, "| rankd-int8 | rankd, rows of tables as int8") || strings.Contains(text, report.Wrong) {
		t.Errorf("got the report\n%s", text)
	}
	s, err := newSuite(&o)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	wide, narrow := tableBytes(o.dirOf("")), tableBytes(o.dirOf("int8"))
	same := s.bundles[""].id == s.bundles["int8"].id
	if narrow == 0 || 3*narrow > wide || same {
		t.Errorf("got tables of %d bytes and of %d with the same digest: %v; want a third at most and another one", wide, narrow, same)
	}
	a, _ := armByName("rankd-int8")
	f := s.read(o.variants(a)[0], 3, 1, false)
	if len(f.Results) == 0 || f.Results[0].OK == 0 || !f.Results[0].Verified || !strings.Contains(strings.Join(f.Command, " "), o.dirOf("int8")) {
		t.Errorf("got %+v, want verified results of the model with rows of int8", f)
	}
}
