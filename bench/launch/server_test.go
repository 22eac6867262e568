package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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
	s, err := Start(context.Background(), Options{Binary: testutil.Binary(t), Model: bundle(t), Flags: []string{"--executor=sim", "--frontends=2", "--frontend-threads=3"}, CPUs: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(s.PID, &set); err != nil || set.Count() != 1 || !set.IsSet(0) {
		t.Errorf("got %d processors (%v), want processor 0 only", set.Count(), err)
	}
	if status, err := s.Status(context.Background()); err != nil || status.Frontends() != 2 || status.Threads() != 3 || status.Tables.Pages == "" {
		t.Errorf("status: got %+v, %v, want 2 frontends of 3 threads and the pages of the tables", status, err)
	}
	if got := threads(s.PID); got != 1 {
		t.Errorf("a process without GOMAXPROCS on one processor: got %d threads, want 1", got)
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

// otherServer is a command line that runs a line of shell.
func otherServer(script string) Options {
	return Options{Command: []string{"/bin/sh", "-c", script, "server", Listen}, CPUs: []int{0}}
}

func TestOtherServerIsReadyWhenItSaysSo(t *testing.T) {
	s, err := Start(context.Background(), otherServer("echo starting; echo READY $1; exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CommandLine[len(s.CommandLine)-1]; got != s.Target {
		t.Errorf("address in the command line: got %q, want %q", got, s.Target)
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "signal: terminated") {
		t.Errorf("a server that SIGTERM kills: got %v, want an error that says so", err)
	}
	if _, err := Start(context.Background(), otherServer("echo not today; exit 3")); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("got %v, want the server's own words", err)
	}
}

func TestI3WhatIsLeftBehindIsNamedAndGone(t *testing.T) {
	s, err := Start(context.Background(), otherServer("trap 'exit 0' TERM; setsid sleep 60 & echo READY; wait"))
	if err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join("/dev/shm", "test."+s.instance()+".left")
	if err := os.WriteFile(shared, nil, 0o600); err != nil {
		t.Skipf("no shared memory: %v", err)
	}
	err = s.Stop()
	if err == nil || !strings.Contains(err.Error(), "(sleep) was left behind") || !strings.Contains(err.Error(), shared) {
		t.Errorf("got %v, want the process and the file named", err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(s.processes()) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("got processes %v, want none", s.processes())
		}
		runtime.Gosched()
	}
	if len(s.files()) > 0 {
		t.Errorf("got files %v, want none", s.files())
	}
}

func TestInterruptedStartTellsNothingElse(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	note := filepath.Join(t.TempDir(), "begun")
	ended := make(chan error)
	go func() {
		_, err := Start(ctx, otherServer("echo so far so $((1 + 1)); touch "+note+"; exec sleep 600"))
		ended <- err
	}()
	testutil.Eventually(t, 10*time.Second, "the server's process", func() bool { _, err := os.Stat(note); return err == nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "so 2") || strings.Contains(err.Error(), "signal") {
		t.Errorf("got %v, want the interruption, without log and exit status", err)
	}
}
