package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"rankd/bench/load"
	"rankd/bench/nullserver"
	"rankd/internal/config"
	"rankd/model/demo"
)

// command runs the command line and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	return out.String(), err
}

// withModel gives a directory with a small model in it.
func withModel(t *testing.T) (dir, model string) {
	t.Helper()
	dir = t.TempDir()
	model = filepath.Join(dir, "model")
	if _, err := demo.CreateTest(context.Background(), demo.TestOptions{Dir: model, Golden: -1}); err != nil {
		t.Fatal(err)
	}
	return dir, model
}

// startNull starts a server that answers everything with the same bytes; stop, or the end of the test, ends it.
func startNull(t *testing.T) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- nullserver.Serve(ctx, l, 1, 0) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func TestBenchCommandsWorkTogether(t *testing.T) {
	dir, model := withModel(t)
	address, _ := startNull(t)
	arm := filepath.Join(dir, "results", "rankd")
	if err := os.MkdirAll(arm, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"bench", "load", "--model", model, "--target", address, "--examples=100", "--connections=2", "-c", "1,4", "--examples-per-request=1,3",
		"--duration=100ms", "--warmup=0s", "--server-pid", strconv.Itoa(os.Getpid()), "--json", filepath.Join(arm, "closed.json"), "--monitor", filepath.Join(arm, "closed.monitor.json"),
	}
	text, err := command(t, append(args, "--verify=false")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	f, err := load.ReadFile(filepath.Join(arm, "closed.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Results) != 4 || len(f.Memory) != 3 || f.Results[3].Callers != 4 || f.Results[3].Rows != 3 || f.Results[3].OK == 0 || f.Results[3].Server == nil {
		t.Errorf("got %d results and memory %v: %s", len(f.Results), f.Memory, text)
	}
	if text, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "replies were wrong") {
		t.Errorf("a server that computes nothing: got %v, want an error about wrong replies\n%s", err, text)
	}
	many := []string{
		"bench", "load", "--model", model, "--target", address, "--workload=shared-user", "--examples=1100", "--connections=2", "-c", "2",
		"--duration=100ms", "--warmup=0s", "--server-pid", strconv.Itoa(os.Getpid()), "--verify=false", "--json", filepath.Join(dir, "many.json"),
	}
	if text, err := command(t, many...); err != nil || !strings.Contains(text, "workload shared-user") {
		t.Fatalf("%v\n%s", err, text)
	}
	if f, err = load.ReadFile(filepath.Join(dir, "many.json")); err != nil || len(f.Results) != 2 || f.Results[0].Rows != 128 || f.Results[1].Rows != 1000 || f.Results[1].OK == 0 || f.Results[1].Workload != "shared-user" {
		t.Errorf("got %+v, %v; want results of 128 and of 1000 candidates", f, err)
	}
	if text, err := command(t, "bench", "report", "--results", filepath.Dir(arm)); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := command(t, "bench", "monitor", "--pid", strconv.Itoa(os.Getpid()), "--duration=50ms"); err != nil || !strings.Contains(text, "CPU seconds") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestBenchCommandsRefuseWhatIsMissing(t *testing.T) {
	for _, args := range [][]string{
		{"load"},
		{"capacity"},
		{"compare", "--model", "x"},
		{"compare", "--model", "x", "--old", "/bin/true", "--new", "/nonexistent/rankd"},
		{"capacity", "--model", "x", "--halves"},
		{"compare", "--model", "x", "--old", "/bin/true", "--new", "/bin/true", "--json", "/nonexistent/x.json"},
		{"monitor", "--pid", "1", "--json", "/nonexistent/x.json"},
		{"soak", "--model", "x", "--json", "/nonexistent/x.json"},
		{"soak", "--model", "x", "--duration", "1s"},
		{"load", "--model", "x", "--mode", "poisson", "--callers", "4"},
		{"load", "--model", "x", "--mode", "fixed", "-c", "4"},
		{"load", "--model", "x", "--rates", "4"},
		{"report"},
		{"monitor"},
		{"load", "--model", "x", "--mode", "sideways"},
		{"load", "--model", "x", "--workload", "rest"},
		{"capacity", "--model", "x", "--objectives", "soon"},
		{"overload"},
		{"overload", "--model", "x", "--executor", "pjrt"},
		{"soak"},
		{"ablation"},
		{"ablation", "--model", "x", "--tables", "colour"},
		{"suite", "--parts", "dance"},
		{"suite", "--dry-run", "--arms", "cobol", "--source", root},
	} {
		_, err := command(t, append([]string{"bench"}, args...)...)
		var coded *exitError
		if !errors.As(err, &coded) || coded.code != config.ExitBadConfig {
			t.Errorf("bench %v: got %v, want a refusal with exit code %d", args, err, config.ExitBadConfig)
		}
	}
}

func TestComparisonIsPlanned(t *testing.T) {
	text, err := command(t, "bench", "suite", "--dry_run", "--smoke", "--server_cpus=0", "--client_cpus=1", "--shared_tables", "--cache_dir", t.TempDir(), "--source", root,
		"--parts=servers,capacity,soak", "--minutes=2", "--request_batch_sizes=1,16", "--price-per-hour=2")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{
		"server [0], client [1]", "[1 16] examples a request", "py-mp-batch-shared: ", "taskset -c 0 ", "--num_processes 2 --shared_tables", "results/smoke",
		"capacity: rankd bench capacity --model=", "--price-per-hour=2", "--minutes=2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
}

func TestComparisonOfManyCandidatesIsPlanned(t *testing.T) {
	common := []string{"bench", "suite", "--dry_run", "--server_cpus=0", "--client_cpus=1", "--cache_dir", t.TempDir(), "--source", root, "--workload=shared-user"}
	for _, x := range []struct {
		more  []string
		wants []string
	}{
		{nil, []string{"results/sim-shared\n", "workload:    shared-user\n", "[1 4 16] callers, [128 1000] examples a request"}},
		{[]string{"--smoke"}, []string{"results/smoke-shared\n", "[1 4 16] callers, [128 1000] examples a request, 800ms"}},
		{[]string{"--smoke", "--name=mine", "--request_batch_sizes=7", "--concurrencies=2"}, []string{"results/mine\n", "[2] callers, [7] examples a request"}},
		{[]string{"--parts=capacity"}, []string{"capacity: rankd bench capacity --model=", "--workload=shared-user"}},
	} {
		text, err := command(t, append(common, x.more...)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", x.more, err, text)
		}
		for _, want := range x.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%v: got no %q in\n%s", x.more, want, text)
			}
		}
	}
}

func TestCapacityOfATargetRefusesFlagsOfServersThatItStarts(t *testing.T) {
	for _, flag := range []string{"--batching=fused", "--halves", "--connection-counts=1", "--server-flags=--frontends=2", "--server-cpus=0"} {
		_, err := command(t, "bench", "capacity", "--model=/nonexistent", "--target=127.0.0.1:1", flag)
		name, _, _ := strings.Cut(flag, "=")
		if err == nil || !strings.Contains(err.Error(), name+":") || !strings.Contains(err.Error(), "--target") {
			t.Errorf("%s: got %v, want an error that names both flags", flag, err)
		}
	}
}

func TestHalvesShareWhatThereIs(t *testing.T) {
	c := capacityConfig{Batching: []string{"continuous"}, Connects: []int{1}, Halves: true}
	e, p := defaultExam(), pacedConfig{ServerCPUs: []int{2, 3, 4, 5}, Connections: 64}
	sets, err := c.sets(&e, &p)
	if err != nil || len(sets) != 4 {
		t.Fatalf("got %v, %v; want four sets", sets, err)
	}
	one, two := sets[2], sets[3]
	if len(one.cpus) != 1 || len(one.cpus[0]) != 4 || len(two.cpus) != 2 || len(two.cpus[0]) != 2 || two.cpus[1][0] != 4 {
		t.Errorf("got processors %v and %v", one.cpus, two.cpus)
	}
	if !strings.Contains(strings.Join(one.flags, " "), "--frontends=4") || strings.Join(two.flags, " ") != "--batching=continuous --frontends=2 --sim-call=700us --sim-row=3us" {
		t.Errorf("got flags %v and %v", one.flags, two.flags)
	}
	if sets[1].connections != 1 || sets[0].connections != 64 {
		t.Errorf("got %d and %d connections", sets[0].connections, sets[1].connections)
	}
	if _, err := c.sets(&e, &pacedConfig{}); err == nil {
		t.Error("no processors to share: got no error")
	}
}

func TestLoadThatNobodyAnsweredIsAnError(t *testing.T) {
	dir, model := withModel(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // it has no service
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "closed.json")
	args := []string{"bench", "load", "--model", model, "--target", l.Addr().String(), "--examples=100", "--connections=2", "-c", "2", "--duration=100ms", "--warmup=0s"}
	text, err := command(t, append(args, "--json", file)...)
	if err == nil || !strings.Contains(err.Error(), "nothing was answered") || !strings.Contains(text, "NOTHING WAS ANSWERED") || strings.Contains(text, "every reply was right") {
		t.Errorf("got %v and\n%s", err, text)
	}
	if f, err := load.ReadFile(file); err != nil || len(f.Results) != 1 || f.Results[0].Failed == 0 {
		t.Errorf("got %+v, %v; want the result of the run", f, err)
	}
	// A file that cannot be written is found before anything is opened: there is no such model either.
	for _, path := range []string{filepath.Join(dir, "none", "x.json"), dir} {
		if _, err := command(t, "bench", "load", "--model", "/nonexistent", "--json", path); err == nil || !strings.Contains(err.Error(), "check --json") {
			t.Errorf("--json %s: got %v, want an error about it", path, err)
		}
	}
}

// writerFunc is told what is written.
type writerFunc func(text string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

func TestRunsBeforeAnErrorAreKept(t *testing.T) {
	dir, model := withModel(t)
	address, stop := startNull(t)
	file := filepath.Join(dir, "closed.json")
	root := newRoot()
	root.SetOut(&bytes.Buffer{})
	root.SetErr(writerFunc(func(text string) {
		if strings.Contains(text, "run 2 of 2") { // the second run finds nobody
			stop()
		}
	}))
	root.SetArgs([]string{
		"bench", "load", "--model", model, "--target", address, "--examples=100", "--connections=2", "-c", "2", "--duration=100ms", "--warmup=0s",
		"--repeats=2", "--verify=false", "--server-pid", strconv.Itoa(os.Getpid()), "--json", file,
	})
	if err := root.ExecuteContext(context.Background()); err == nil {
		t.Error("nobody to connect to: got no error")
	}
	if f, err := load.ReadFile(file); err != nil || len(f.Results) != 1 || f.Results[0].OK == 0 {
		t.Errorf("got %+v, %v; want the first run", f, err)
	}
}
