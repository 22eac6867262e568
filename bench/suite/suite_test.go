package suite

import (
	"bytes"
	"context"
	"errors"
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
}

func TestI7ResultsOfAnotherConfigurationAreRefused(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Processes, o.Repeats, o.Callers = []int{1}, 2, []int{1}
	run(t, o, &progress)
	before := contents(t, o.Results())
	for name, change := range map[string]func(o *Options){
		"duration":            func(o *Options) { o.Duration, o.Repeats = 2*o.Duration, 1 },
		"ids":                 func(o *Options) { o.IDs = "zipf:1.5" },
		"max-vocab-size":      func(o *Options) { o.MaxVocab, o.Arms = 4, []string{"py"} },
		"workload":            func(o *Options) { o.Workload = exam.SharedUser },
		"concurrencies":       func(o *Options) { o.Callers = []int{1, 2} },
		"request-batch-sizes": func(o *Options) { o.Sizes = []int{3, 4} },
	} {
		other := o
		change(&other)
		err := Claim(other, true)
		if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), name+": got ") || !strings.Contains(err.Error(), "--name") || !strings.Contains(err.Error(), "--replace") {
			t.Errorf("another %s: got %v, want an error that names it and what to do", name, err)
		}
		if err := Prepare(context.Background(), other); err != nil { // what Run needs; no results
			t.Fatal(err)
		}
		progress.Reset()
		if _, err := Run(context.Background(), other); err == nil || measured(&progress) > 0 {
			t.Errorf("another %s: got %v and %d points, want an error and none", name, err, measured(&progress))
		}
		if got := contents(t, o.Results()); got != before {
			t.Errorf("another %s: the results changed", name)
		}
	}
	other := o
	other.Duration, other.Replace = 2*o.Duration, true
	if text := run(t, other, &progress); measured(&progress) == 0 || strings.Contains(text, "100ms") {
		t.Errorf("replaced: got %d points and\n%s", measured(&progress), text)
	}
}

// A result that only its digest tells apart is refused, too: here that of a server with another command line.
func TestI7ResultsOfAnotherCommandLineAreRefused(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Processes, o.Repeats, o.Callers = []int{1}, 1, []int{1}
	run(t, o, &progress)
	files, _ := filepath.Glob(filepath.Join(o.Results(), "rankd", "1x1.x3.r1.json"))
	if len(files) != 1 {
		t.Fatalf("got %v, want one file", files)
	}
	f, err := load.ReadFile(files[0])
	if err == nil {
		f.Config = "other"
		err = load.WriteJSON(files[0], f)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "1x1.x3.r1.json") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestI7RunThatMeasuredNothingBindsNobody(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	if err := Claim(o, true); err != nil {
		t.Fatal(err)
	}
	if err := load.WriteJSON(filepath.Join(o.Results(), stateName), report.Suite{Schema: load.Schema, Repeats: 9}); err != nil {
		t.Fatal(err)
	}
	o.Workload = exam.SharedUser
	if err := Claim(o, true); err != nil || readState(o.Results()) != nil {
		t.Errorf("got %v and %+v, want no error and nothing of the run before", err, readState(o.Results()))
	}
}

func TestI7ArmsAndRepeatsAreAdded(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Processes, o.Repeats, o.Callers = []int{1}, 1, []int{1}
	run(t, o, &progress)
	o.Arms = []string{"rankd-nobatch"}
	text := run(t, o, &progress)
	for _, want := range []string{"| rankd | rankd with its defaults | measured |", "| rankd-nobatch | rankd, each request a batch of its own | measured |"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	o.Repeats = 2
	run(t, o, &progress)
	o.Repeats = 1
	run(t, o, &progress)
	if got := readState(o.Results()); got == nil || got.Repeats != 2 || len(got.Arms) != 2 || measured(&progress) > 0 {
		t.Errorf("fewer repeats: got %+v and %d points, want 2 repeats, 2 arms, nothing measured again\n%s", got, measured(&progress), progress.String())
	}
}

// contents is all files of a folder but those of configurations of empty ones.
func contents(t *testing.T, dir string) string {
	t.Helper()
	text, err := DigestFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A whole comparison of the other workload; every reply is compared with what its rows must give.
func TestSharedUserIsMeasured(t *testing.T) {
	var progress bytes.Buffer
	o := small(t, &progress)
	o.Workload, o.Processes, o.Repeats, o.Sizes = exam.SharedUser, []int{1}, 1, []int{40, 300} // the second one is looked up in many chunks
	text := run(t, o, &progress)
	for _, want := range []string{
		"**One user, many candidates** (workload shared-user).", "the first 13 of the 26 tables, 37 of the 214 ids of a row, and the dense features",
		"| rankd | rankd with its defaults | measured |", "workload             shared-user", "## All points (smoke run, shared-user, simulated accelerator)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	s, err := newSuite(&o)
	if err == nil {
		err = s.open(context.Background())
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
		err = s.open(context.Background())
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
