package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/faults"
	"rankd/model"
	"rankd/supervisor"
)

// aimed is a server of a build with fault hooks, whose running processes a test can aim at one by one.
type aimed struct {
	*server
	file     string // through which the spec goes
	manifest *model.Manifest
}

// aimable adds to o what an aimed server needs.
func aimable(t testing.TB, o options) (options, string) {
	t.Helper()
	// In memory: a process that is stopped while it waits for a disk is not stopped for as long as that takes.
	dir, err := os.MkdirTemp("/dev/shm", "rankd-e2e-faults-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "faults")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.tags = []string{"faults"}
	o.env = append([]string{"RANKD_FAULTS_FILE=" + file}, o.env...)
	return o, file
}

// serveAimed starts an aimed server and waits until it is ready.
func serveAimed(t testing.TB, o options) *aimed {
	t.Helper()
	o, file := aimable(t, o)
	b, err := model.Open(o.model)
	if err != nil {
		t.Fatal(err)
	}
	return &aimed{server: serve(t, o), file: file, manifest: b.Manifest}
}

// aim gives one process a spec, which replaces the one that it had, and returns what it reports. Preconditions: the process
// is ready, or it would die of the signal.
func (s *aimed) aim(c supervisor.Child, spec string) faults.Report {
	s.t.Helper()
	r, err := s.hand(c, spec)
	if err != nil {
		s.t.Fatalf("aim %q at %s %d (pid %d): %v", spec, c.Role, c.Index, c.PID, err)
	}
	return r
}

// report asks a process for a report and takes its spec away.
func (s *aimed) report(c supervisor.Child) (faults.Report, error) { return s.hand(c, "") }

// hand hands a spec to a process and waits for its report. A process that ends or stops at once gives an empty one.
func (s *aimed) hand(c supervisor.Child, spec string) (r faults.Report, err error) {
	path := faults.ReportPath(s.file, c.PID)
	if err := os.WriteFile(s.file, []byte(spec), 0o600); err != nil {
		return r, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return r, err
	}
	send(s.t, c, unix.SIGUSR2)
	var text []byte
	s.until(limit, fmt.Sprintf("a report of %s %d (pid %d)", c.Role, c.Index, c.PID), func() bool {
		text, err = os.ReadFile(path)
		// A process may reach the point and be gone before it has written anything.
		return err == nil || !alive(c) || halted(c)
	}, func() string { return fmt.Sprint(err) })
	if err != nil {
		return r, nil
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("got report %q", r.Error)
	}
	return r, nil
}

// halted reports whether a process is stopped by a signal, with all its threads.
func halted(c supervisor.Child) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.PID))
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		if f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); len(f) == 0 || f[0][0] != 'T' {
			return false
		}
	}
	return len(tasks) > 0
}
