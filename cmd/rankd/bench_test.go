package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rankd/bench/load"
	"rankd/bench/nullserver"
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

func TestBenchCommandsWorkTogether(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	if _, err := demo.CreateTest(context.Background(), demo.TestOptions{Dir: model, Golden: -1}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- nullserver.Serve(ctx, l, 1, 0) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	arm := filepath.Join(dir, "results", "rankd")
	if err := os.MkdirAll(arm, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"bench", "load", "--model", model, "--target", l.Addr().String(), "--examples=100", "--connections=2", "-c", "1,4", "--examples-per-request=1,3",
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
		{"report"},
		{"monitor"},
		{"load", "--model", "x", "--mode", "sideways"},
		{"capacity", "--model", "x", "--objectives", "soon"},
	} {
		if _, err := command(t, append([]string{"bench"}, args...)...); err == nil {
			t.Errorf("bench %v: got no error", args)
		}
	}
}
