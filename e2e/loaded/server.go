package loaded

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"rankd/bench/launch"
	"rankd/model/demo"
)

// Missing skips the test, or fails it where a variable says that all it needs has to be there.
func Missing(t *testing.T, variable, format string, args ...any) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Start starts a server with two frontends and the simulated accelerator, and 100 requests of four examples a second for a minute. stop
// ends the server; the end of the test does so too. variable is that of Missing: RANKD_BIN must name the binary.
func Start(t *testing.T, variable string) (s *launch.Server, stop func()) {
	t.Helper()
	binary := os.Getenv("RANKD_BIN")
	if binary == "" {
		Missing(t, variable, "RANKD_BIN names no binary: make build makes one")
	}
	b, err := demo.Create(t.Context(), demo.Options{Dir: filepath.Join(t.TempDir(), "demo"), Seed: 1, MaxVocab: 200, MaxBatch: 256, Golden: 8, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err = launch.Start(t.Context(), launch.Options{Binary: binary, Model: b.Dir, Flags: []string{"--executor=sim", "--frontends=2"}})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	load := exec.Command(binary, "bench", "load", "--model", b.Dir, "--executor", "sim", "--target", s.Target, "--mode", "poisson", "--rates", "100",
		"--examples-per-request", "4", "--examples", "256", "--duration", "60s", "--connections", "4")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = load.Process.Kill()
		_ = load.Wait() // ended by us
	})
	return s, stop
}
