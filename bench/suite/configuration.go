package suite

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/report"
)

// ErrOther is the refusal to put results beside those that were made otherwise.
var ErrOther = errors.New("results of another configuration")

// configurationName is the file that says what all results of a folder were made with.
const configurationName = "configuration.json"

// settings are what all results of a folder have in common, by names for people: those of flags where there is one. Arms and repeats
// are not among them, so a later run may add some (I7).
type settings map[string]string

// settings of this run; without those of the comparison if only trials of rankd alone are made.
func (s *suite) settings(servers bool) settings {
	o := &s.o
	x := settings{
		"platform": o.Platform, "max-vocab-size": fmt.Sprint(o.MaxVocab), "ids": o.IDs, "workload": cmp.Or(o.Workload, exam.Independent),
		"server-cpus": join(o.ServerCPUs), "client-cpus": join(o.ClientCPUs), "machine": machineName(), "code of rankd": s.sources[product],
	}
	if b := s.bundles[""]; b != nil {
		x["model"] = b.id
	}
	if !servers {
		return x
	}
	x["suite version"], x["connections"] = fmt.Sprint(suiteVersion), fmt.Sprint(connections)
	x["duration"], x["warmup"] = o.Duration.String(), o.Warmup.String()
	x["concurrencies"], x["request-batch-sizes"] = join(o.Callers), join(o.Sizes)
	x["num-processes"], x["num-threads"] = join(o.Processes), join(o.Threads)
	for _, a := range o.chosen() {
		switch {
		case a.kind == python:
			x["python"], x["code of the Python servers"] = s.python, s.sources[python]
		case a.kind == cpp && s.sources[cpp] != "":
			x["code of the C++ server"] = s.sources[cpp]
		}
	}
	return x
}

// Claim refuses a folder with results of another configuration, or with Options.Replace removes them. It comes before anything is
// made or measured; servers says whether servers are compared, and not only trials made of rankd alone.
func Claim(o Options, servers bool) error {
	s, err := newSuite(&o)
	if err != nil {
		return err
	}
	if err := s.digestSources(); err != nil {
		return err
	}
	return s.claim(servers)
}

func (s *suite) claim(servers bool) error {
	dir, want := s.o.Results(), s.settings(servers)
	there, err := readSettings(dir)
	if err != nil {
		return fmt.Errorf("compare servers: %w", err)
	}
	if !hasResults(dir) {
		there = nil
		if err := os.Remove(filepath.Join(dir, stateName)); err != nil && !errors.Is(err, os.ErrNotExist) { // of a run that measured nothing
			return fmt.Errorf("compare servers: %w", err)
		}
	}
	differences := there.differences(want)
	if len(s.bundles) > 0 && servers {
		differences = append(differences, s.strange()...)
	}
	if len(differences) > 0 {
		if !s.o.Replace {
			return fmt.Errorf("compare servers: %s has %w: %s: keep these with another --name, or remove them with --replace",
				dir, ErrOther, strings.Join(differences, "; "))
		}
		fmt.Fprintf(s.o.Progress, "removing results of another configuration from %s: %s\n", dir, strings.Join(differences, "; "))
		if err := removeResults(dir); err != nil {
			return fmt.Errorf("compare servers: remove results: %w", err)
		}
		there = nil
	}
	for name, value := range there {
		if want[name] == "" {
			want[name] = value
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("compare servers: %w", err)
	}
	return load.WriteJSON(filepath.Join(dir, configurationName), want)
}

// differences lists what is set otherwise. What only one side knows is none: not every run has every arm, or servers at all.
func (there settings) differences(want settings) []string {
	var list []string
	for _, name := range sortedKeys(want) {
		if got, ok := there[name]; ok && got != want[name] {
			list = append(list, fmt.Sprintf("%s: got %q there, want %q", name, got, want[name]))
		}
	}
	return list
}

// strange lists results of the plan that the settings cannot tell from ours, but that were made with another model or command line.
func (s *suite) strange() []string {
	var list []string
	for _, a := range s.o.chosen() {
		for _, v := range s.o.variants(a) {
			for _, rows := range s.o.Sizes {
				for repeat := range s.o.Repeats {
					for _, sweep := range []bool{false, true} {
						list = append(list, s.stranger(v, rows, repeat+1, sweep)...)
					}
				}
			}
		}
	}
	return list
}

func (s *suite) stranger(v *variant, rows, repeat int, sweep bool) []string {
	path := s.path(v, rows, repeat, sweep)
	f, err := load.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return []string{err.Error()}
	case f.Config == s.digest(v, rows):
		return nil
	}
	name, _ := filepath.Rel(s.o.Results(), path) // below it
	return []string{fmt.Sprintf("%s: got digest %s of model, server and command line %q, want %s", name, f.Config, strings.Join(f.Command, " "), s.digest(v, rows))}
}

// readSettings reads those of the results in a folder; folders that are older than their file have some of them in suite.json.
func readSettings(dir string) (settings, error) {
	text, err := os.ReadFile(filepath.Join(dir, configurationName))
	if err == nil {
		x := settings{}
		if err := json.Unmarshal(text, &x); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, configurationName), err)
		}
		return x, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	old := readState(dir)
	if old == nil {
		return nil, nil
	}
	seconds := func(v float64) string { return time.Duration(math.Round(v * 1e9)).String() }
	return settings{
		"platform": old.Platform, "max-vocab-size": fmt.Sprint(old.MaxVocab), "ids": old.IDs, "workload": cmp.Or(old.Workload, exam.Independent),
		"connections": fmt.Sprint(old.Connections), "duration": seconds(old.Duration), "warmup": seconds(old.Warmup),
	}, nil
}

// readState reads suite.json; nil: there is none.
func readState(dir string) *report.Suite {
	x := &report.Suite{}
	text, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil || json.Unmarshal(text, x) != nil {
		return nil
	}
	return x
}

const stateName = "suite.json"

// hasResults reports whether something was measured: what a folder without results was to hold binds nobody.
func hasResults(dir string) bool {
	for _, pattern := range []string{"*/*.json", "*.json.made", "*.json.begun", "*.json"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are right
		if slices.ContainsFunc(found, func(path string) bool {
			name := filepath.Base(path)
			return !strings.HasSuffix(name, ".monitor.json") && !slices.Contains([]string{configurationName, stateName, "summary.json", report.RunsName}, name)
		}) {
			return true
		}
	}
	return false
}

// removeResults removes what comparisons write, and nothing else.
func removeResults(dir string) error {
	var errs []error
	for _, a := range arms {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, a.name)))
	}
	for _, pattern := range []string{"*.json", "*.json.made", "*.json.begun", "*.svg", "REPORT.md", environmentName} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are right
		for _, path := range found {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}
