package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"rankd/supervisor"
	"rankd/tables"
)

// traces is what a server holds besides its traffic: descriptors and mappings of each process, goroutines, files in shared
// memory, and the checksum of the tables. A server at rest without connections has the same ones whoever died before.
type traces struct {
	of     map[string]int    // how often each thing is there, by a name that does not depend on pids and inodes
	stacks map[string]string // of the goroutines, by process
}

// traces looks at all processes of the server. Preconditions: all are ready.
func (s *aimed) traces() (traces, error) {
	t := traces{of: map[string]int{}, stacks: map[string]string{}}
	st := s.state()
	if st == nil {
		return t, fmt.Errorf("look for traces: no state file")
	}
	for _, c := range append([]supervisor.Child{s.self()}, st.Children...) {
		name := fmt.Sprintf("%s %d", c.Role, c.Index)
		r, err := s.report(c)
		if err != nil {
			return t, err
		}
		t.of[name+" goroutines"] = r.Goroutines
		t.stacks[name] = r.Stacks
		for kind, n := range descriptorsOf(c.PID) {
			t.of[name+" descriptor "+kind] = n
		}
		for path, bytes := range mappingsOf(c.PID) {
			t.of[name+" mapped bytes of "+path] = bytes
		}
	}
	t.of["children that nobody has waited for"] = len(zombies(s.pid))
	for _, path := range filesOf(s.instance, "/dev/shm", s.o.shmDir) {
		t.of["file "+path]++
	}
	set, err := tables.AttachPath(st.FDPath(st.TablesFD), s.manifest)
	if err != nil {
		return t, err
	}
	t.of["checksum of the tables"] = int(set.Checksum())
	return t, set.Close()
}

// wantTraces waits until the server has exactly the traces that it had.
func (s *aimed) wantTraces(want traces) {
	s.t.Helper()
	var last []string
	deadline := time.Now().Add(limit)
	for {
		got, err := s.traces()
		if err != nil {
			s.t.Fatal(err)
		}
		if last = want.differ(got); len(last) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("traces did not return to their start within %v:\n  %s", limit, strings.Join(last, "\n  "))
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// differ lists what is there another number of times, with the goroutines where those are more or fewer.
func (t traces) differ(other traces) []string {
	all := maps.Clone(t.of)
	maps.Copy(all, other.of)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if t.of[name] == other.of[name] {
			continue
		}
		out = append(out, fmt.Sprintf("%s: got %d, want %d", name, other.of[name], t.of[name]))
		if process, ok := strings.CutSuffix(name, " goroutines"); ok {
			out = append(out, "were "+t.stacks[process], "are "+other.stacks[process])
		}
	}
	return out
}

var inodeText = regexp.MustCompile(`\[\d+\]`)

// descriptorsOf counts the descriptors of a process by kind or path.
func descriptorsOf(pid int) map[string]int {
	found := map[string]int{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			found[inodeText.ReplaceAllString(target, "")]++
		}
	}
	return found
}

// mappingsOf gives the mapped bytes of each file of a process, nameless shared ones included.
func mappingsOf(pid int) map[string]int {
	found := map[string]int{}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[5], "/") {
			continue
		}
		var from, to int
		if n, _ := fmt.Sscanf(f[0], "%x-%x", &from, &to); n == 2 {
			found[f[5]] += to - from
		}
	}
	return found
}

// zombies lists the children of a process that nobody has waited for.
func zombies(pid int) []string {
	var found []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(text)) {
			stat, err := os.ReadFile("/proc/" + child + "/stat")
			if err == nil && strings.Contains(string(stat), ") Z ") {
				found = append(found, string(stat))
			}
		}
	}
	return found
}
