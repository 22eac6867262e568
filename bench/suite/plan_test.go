package suite

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestVariantsSuitTheProcessors(t *testing.T) {
	labels := func(name string, cpus int, change func(o *Options)) string {
		o := Options{ServerCPUs: make([]int, cpus)}
		if change != nil {
			change(&o)
		}
		a, ok := armByName(name)
		if !ok {
			t.Fatalf("no arm %q", name)
		}
		var list []string
		for _, v := range o.variants(a) {
			list = append(list, v.label())
		}
		return strings.Join(list, " ")
	}
	for _, x := range []struct {
		name   string
		cpus   int
		change func(o *Options)
		want   string
	}{
		{"rankd", 1, nil, "1x1 2x1"},
		{"rankd", 8, nil, "1x8 2x4 4x2 6x2 8x1"},
		{"py-mp", 1, nil, "1 2"},
		{"py-mp", 4, nil, "1 2 4"},
		{"py", 8, nil, "one"},
		{"rankd", 8, func(o *Options) { o.Processes, o.Threads = []int{2}, []int{1, 4} }, "2x1 2x4"},
	} {
		if got := labels(x.name, x.cpus, x.change); got != x.want {
			t.Errorf("%s on %d processors: got %q, want %q", x.name, x.cpus, got, x.want)
		}
	}
}

func TestEveryArmBeginsARepeat(t *testing.T) {
	s := &suite{o: Options{Repeats: 3}}
	var list []assignment
	for _, name := range []string{"rankd", "py", "py-mp"} {
		a, _ := armByName(name)
		list = append(list, assignment{v: &variant{arm: a}})
	}
	first := map[string]bool{}
	for r := 1; r <= 3; r++ {
		rotated := s.rotate(list, r)
		if len(rotated) != 3 {
			t.Fatalf("repeat %d: got %d arms", r, len(rotated))
		}
		first[rotated[0].v.name] = true
	}
	if len(first) != 3 {
		t.Errorf("got repeats that begin with %v, want each arm once", first)
	}
}

func TestPrivateCopiesOfTablesCount(t *testing.T) {
	for name, want := range map[string]int64{"py-mp": 400, "py-mp-shared": 100, "rankd": 100} {
		a, _ := armByName(name)
		v := &variant{a, 4, 1}
		if got := v.memory(100); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

func TestSharedTablesAddArms(t *testing.T) {
	names := func(o Options) (text string) {
		for _, a := range o.chosen() {
			text += a.name + " "
		}
		return text
	}
	if got := names(Options{Arms: []string{"py-mp-batch", "rankd"}}); got != "rankd py-mp-batch " {
		t.Errorf("got %q", got)
	}
	if got := names(Options{Arms: []string{"py-mp-batch", "rankd"}, Shared: true}); got != "rankd py-mp-batch py-mp-batch-shared " {
		t.Errorf("got %q", got)
	}
}

func TestProcessorsAreSplit(t *testing.T) {
	for _, x := range [][3]int{{1, 1, 1}, {2, 1, 1}, {3, 1, 2}, {8, 4, 4}} {
		server, client := Split(make([]int, x[0]))
		if len(server) != x[1] || len(client) != x[2] {
			t.Errorf("%d processors: got %d and %d, want %d and %d", x[0], len(server), len(client), x[1], x[2])
		}
	}
}

func TestOnlyNeededPackagesAreInstalled(t *testing.T) {
	const all = `# text
grpcio==1.2 \
    --hash=sha256:aa
jax==3.4 \
    --hash=sha256:bb \
    --hash=sha256:cc
    # via -r requirements.in
pytest==5.6 \
    --hash=sha256:dd
`
	const grpcio, jax = "# text\ngrpcio==1.2 \\\n    --hash=sha256:aa\n", "jax==3.4 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via -r requirements.in\n"
	if got := string(needed([]byte(all), false)); got != grpcio {
		t.Errorf("simulated: got %q", got)
	}
	if got := string(needed([]byte(all), true)); got != grpcio+jax {
		t.Errorf("network: got %q", got)
	}
}

func TestRatesAreRound(t *testing.T) {
	for rate, want := range map[float64]float64{0: 0, 1234.5: 1230, 98765: 98800, 7.777: 7.78} {
		if got := round(rate); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%v: got %v, want %v", rate, got, want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	var progress bytes.Buffer
	for name, change := range map[string]func(o *Options){
		"platform": func(o *Options) { o.Platform = "abacus" },
		"workload": func(o *Options) { o.Workload = "rest" },
		"arm":      func(o *Options) { o.Arms = []string{"cobol"} },
		"repeats":  func(o *Options) { o.Repeats = 0 },
		"sizes":    func(o *Options) { o.Sizes = []int{0} },
		"source":   func(o *Options) { o.Source = t.TempDir() },
		"warm-up":  func(o *Options) { o.Warmup = -time.Second },
	} {
		o := Options{
			Platform: Sim, Arms: []string{"rankd"}, ServerCPUs: []int{0}, ClientCPUs: []int{0}, Duration: time.Second, Repeats: 1,
			Callers: []int{1}, Sizes: []int{1}, Source: "../..", Out: &progress, Progress: &progress,
		}
		if err := DryRun(o); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if err := DryRun(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if !strings.Contains(progress.String(), "taskset -c 0") {
		t.Errorf("got the plan\n%s", progress.String())
	}
}
