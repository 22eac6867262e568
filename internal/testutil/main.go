package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends the process; a package calls it from TestMain. After tests that passed it
// looks for leaks.
func Main(m *testing.M, options ...goleak.Option) {
	before := observe()
	code := m.Run()
	removeBinaries()
	if code == 0 {
		if err := checkLeaks(before, options); err != nil {
			fmt.Fprintln(os.Stderr, "leak check:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// state is what leaks are measured against.
type state struct {
	descriptors map[string]string // number -> target
	mappings    map[string]int    // path -> count
	children    map[string]bool
}

func observe() state {
	// The runtime opens its poller descriptors at the first use; do so now, so that they are not taken for leaks.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	return state{descriptors: descriptors(), mappings: rankdMappings(), children: children()}
}

func checkLeaks(before state, options []goleak.Option) error {
	if err := goleak.Find(options...); err != nil {
		return err
	}
	// Finalizers may still be closing what tests dropped, and children may be on their way out: give them a bounded time.
	var leaks []string
	deadline := time.Now().Add(5 * time.Second)
	for {
		if leaks = differences(before, observe()); len(leaks) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("got %d leaks, want none:\n  %s", len(leaks), strings.Join(leaks, "\n  "))
		}
		runtime.GC()
		<-time.After(50 * time.Millisecond)
	}
}

func differences(before, after state) []string {
	var leaks []string
	for number, target := range after.descriptors {
		if _, was := before.descriptors[number]; !was {
			leaks = append(leaks, fmt.Sprintf("descriptor %s -> %s", number, target))
		}
	}
	for path, n := range after.mappings {
		if was := before.mappings[path]; n > was {
			leaks = append(leaks, fmt.Sprintf("%d mappings of %s, was %d", n, path, was))
		}
	}
	for pid := range after.children {
		if !before.children[pid] {
			leaks = append(leaks, "child process "+pid)
		}
	}
	for _, name := range instanceNames() {
		left, _ := filepath.Glob("/dev/shm/rankd." + name + ".*")
		for _, path := range left {
			leaks = append(leaks, "file "+path)
		}
	}
	return leaks
}

func descriptors() map[string]string {
	open := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		// The directory's own descriptor is gone by now and has no target.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[e.Name()] = target
		}
	}
	return open
}

// rankdMappings counts the mappings of files whose names begin with "rankd", memfds included.
func rankdMappings() map[string]int {
	count := map[string]int{}
	maps, _ := os.ReadFile("/proc/self/maps")
	for _, l := range strings.Split(string(maps), "\n") {
		f := strings.Fields(l)
		if len(f) < 6 {
			continue
		}
		if base := filepath.Base(strings.TrimPrefix(f[5], "/memfd:")); strings.HasPrefix(base, "rankd") {
			count[f[5]]++
		}
	}
	if self, err := os.Executable(); err == nil {
		delete(count, self)
	}
	return count
}

func children() map[string]bool {
	found := map[string]bool{}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for _, pid := range strings.Fields(string(text)) {
			found[pid] = true
		}
	}
	return found
}

var instances struct {
	mu    sync.Mutex
	names []string
}

// Instance gives a fresh instance name; files in /dev/shm that carry it after the tests are leaks.
func Instance(t testing.TB) string {
	t.Helper()
	instances.mu.Lock()
	defer instances.mu.Unlock()
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), len(instances.names))
	instances.names = append(instances.names, name)
	return name
}

func instanceNames() []string {
	instances.mu.Lock()
	defer instances.mu.Unlock()
	return append([]string(nil), instances.names...)
}

var binaries struct {
	mu   sync.Mutex
	dir  string
	path map[string]string // by tags
}

// Binary gives the path of the rankd command built with the given build tags. It is built once a test process and removed
// by Main.
func Binary(t testing.TB, tags ...string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	key := strings.Join(tags, ",")
	if path, built := binaries.path[key]; built {
		return path
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "rankd-test-binary-")
		if err != nil {
			t.Fatalf("make directory for the rankd binary: %v", err)
		}
		binaries.dir, binaries.path = dir, map[string]string{}
	}
	path := filepath.Join(binaries.dir, fmt.Sprintf("rankd%d", len(binaries.path)))
	build := exec.Command("go", "build", "-tags", key, "-o", path, "rankd/cmd/rankd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build rankd with tags %q: %v\n%s", key, err, out)
	}
	binaries.path[key] = path
	return path
}

func removeBinaries() {
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
}
