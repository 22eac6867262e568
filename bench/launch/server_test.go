package launch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
	"rankd/model/demo"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func bundle(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := demo.CreateTest(context.Background(), demo.TestOptions{Dir: dir, Golden: -1}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestServerIsReadyPinnedAndEnds(t *testing.T) {
	s, err := Start(context.Background(), Options{Binary: testutil.Binary(t), Model: bundle(t), Flags: []string{"--executor=sim"}, CPUs: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(s.PID, &set); err != nil || set.Count() != 1 || !set.IsSet(0) {
		t.Errorf("got %d processors (%v), want processor 0 only", set.Count(), err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("run directory after the end: got %v, want none", err)
	}
	if err := unix.Kill(s.PID, 0); err != unix.ESRCH {
		t.Errorf("process after the end: got %v, want none", err)
	}
}

func TestServerThatCannotStartIsExplained(t *testing.T) {
	_, err := Start(context.Background(), Options{Binary: testutil.Binary(t), Model: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("got %v, want the server's own error", err)
	}
	if _, err := Start(context.Background(), Options{Binary: "/nonexistent/rankd"}); err == nil {
		t.Error("a binary that is not there: got no error")
	}
}
