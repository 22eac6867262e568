package suite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFlagsAreCheckedBeforeWorkBegins(t *testing.T) {
	good := func() Options {
		return Options{
			Name: "test", Platform: Sim, Arms: []string{"rankd"}, IDs: "uniform", ServerCPUs: []int{0}, ClientCPUs: []int{0}, Source: "../..",
			Duration: time.Second, Repeats: 1, Callers: []int{1}, Sizes: []int{1},
		}
	}
	o := good()
	if warnings, err := o.Check(); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "--client-cpus both have [0]") {
		t.Fatalf("one processor for both: got warnings %q and %v, want one warning", warnings, err)
	}
	for flag, change := range map[string]func(o *Options){
		"--python":      func(o *Options) { o.Python = filepath.Join(t.TempDir(), "python") },
		"--ids":         func(o *Options) { o.IDs = "zipf:1" },
		"--name":        func(o *Options) { o.Name = "../other" },
		"--server-cpus": func(o *Options) { o.ServerCPUs = []int{0, 1000} },
		"--client-cpus": func(o *Options) { o.ClientCPUs = []int{1000} },
		"--arms":        func(o *Options) { o.Arms = []string{"rankd", "cobol"} },
		"--source":      func(o *Options) { o.Source = t.TempDir() },
		"--num-threads": func(o *Options) { o.Threads = []int{0} },
	} {
		o := good()
		change(&o)
		if _, err := o.Check(); err == nil || strings.Count(err.Error(), "check --") != 1 || !strings.Contains(err.Error(), "check "+flag+":") {
			t.Errorf("%s: got %v, want one error about it", flag, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "/tmp"} {
		o := good()
		o.Name = name
		if _, err := o.Check(); err == nil {
			t.Errorf("name %q: got no error", name)
		}
	}
}
