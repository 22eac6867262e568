package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/model"
)

// privately starts a server in a mount namespace of its own, after a script that may mount and join groups there. What it
// mounts is gone with the processes, whatever happens to the test.
func privately(t testing.TB, script string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes a mount namespace: run as root")
	}
	return []string{"unshare", "--mount", "--propagation=private", "sh", "-ec", script + `; exec "$@"`, "sh"}
}

// wantRefused waits for a server that does not start for want of room, and wants the figures in what it says.
func (s *server) wantRefused(need int64, words ...string) {
	s.t.Helper()
	s.awaitEnd(limit)
	said := s.logSinceStart()
	said = said[strings.LastIndex(strings.TrimRight(said, "\n"), "\n")+1:]
	if code := s.cmd.ProcessState.ExitCode(); code != 1 {
		s.t.Errorf("got %v, want exit code 1", s.cmd.ProcessState)
	}
	for _, w := range append(words, "available (limit:", "--shm-dir") {
		if !strings.Contains(said, w) {
			s.t.Errorf("got last words %q, want %q in them", said, w)
		}
	}
	var needed, available int64
	for _, word := range []struct {
		before string
		value  *int64
	}{{"need ", &needed}, {" has ", &available}} {
		if _, rest, ok := strings.Cut(said, word.before); ok {
			*word.value, _ = strconv.ParseInt(rest[:strings.IndexByte(rest+" ", ' ')], 10, 64)
		}
	}
	if needed < need || available <= 0 && !strings.Contains(said, "hugetlb") || available >= needed {
		s.t.Errorf("got %q: %d bytes needed and %d available, want at least %d needed and less available", said, needed, available, need)
	}
	s.t.Logf("refused: %s", strings.TrimSpace(said))
	s.wantGone()
}

// bytesOf is the size of a model's tables in memory.
func bytesOf(b *model.Bundle) (bytes int64) {
	for _, t := range b.Manifest.Tables {
		bytes += t.Bytes()
	}
	return bytes
}

func TestServerWithoutRoomForItsTablesIsRefusedWithFigures(t *testing.T) {
	const small = 64 << 20
	b := demoModel(t, "demo-wide", 10_000)
	need := bytesOf(b)
	if need <= small {
		t.Fatalf("got tables of %d bytes, want more than %d", need, small)
	}
	flags := []string{"--executor=sim", "--buckets=1,8,32"}
	t.Run("in the directory that was named", func(t *testing.T) {
		dir := memory(t, small)
		s := newServer(t, options{model: b.Dir, flags: flags, shmDir: dir})
		s.start()
		s.wantRefused(need, dir, "filesystem")
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("got %v left in the directory, want nothing", left)
		}
	})
	t.Run("in a small /dev/shm", func(t *testing.T) {
		// As in a container that was given no more. Whatever better places the machine has are hidden too.
		s := newServer(t, options{model: b.Dir, flags: flags, wrap: privately(t, fmt.Sprintf(`
			awk '$3 == "hugetlbfs" || $3 == "tmpfs" && /huge=/ {print $2}' /proc/mounts | while read -r point; do umount "$point"; done
			mount -t tmpfs -o size=%d rankd-e2e /dev/shm`, small))})
		s.start()
		s.wantRefused(need, "/dev/shm", "filesystem")
	})
	t.Run("in a memory cgroup", func(t *testing.T) {
		group := cgroup(t, "memory", map[string]string{"memory.limit_in_bytes": strconv.Itoa(small), "memory.max": strconv.Itoa(small)})
		s := newServer(t, options{model: b.Dir, flags: flags, wrap: privately(t, joining(group))})
		s.start()
		s.wantRefused(need, "cgroup")
	})
}

// joining is a shell command that moves the shell into a cgroup.
func joining(group string) string { return "echo $$ > " + group + "/cgroup.procs" }

// cgroup makes a cgroup below the one of the test with the limits that are there of those given, and removes it at the end.
func cgroup(t testing.TB, controller string, limits map[string]string) string {
	t.Helper()
	parent, ok := cgroupParent(t, controller)
	if !ok {
		t.Skipf("needs a cgroup with the controller %s: there is none that can be written to", controller)
	}
	group := filepath.Join(parent, fmt.Sprintf("rankd-e2e-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Skipf("makes a cgroup, which is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		var err error
		for range 100 { // the last process may still be on its way out
			if err = os.Remove(group); err == nil {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Errorf("remove cgroup: %v", err)
	})
	set := 0
	for file, value := range limits {
		err := os.WriteFile(filepath.Join(group, file), []byte(value), 0)
		if err == nil {
			set++
		} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
	}
	if set == 0 {
		t.Skipf("needs a cgroup with the controller %s: it has none of the limits", controller)
	}
	return group
}

// cgroupParent finds a directory below which a cgroup with the controller can be made: of version 1, or of version 2 where
// the controller is or can be handed down.
func cgroupParent(t testing.TB, controller string) (string, bool) {
	t.Helper()
	mounts, _ := os.ReadFile("/proc/mounts")
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		point := f[1]
		switch {
		case f[2] == "cgroup" && strings.Contains(","+f[3]+",", ","+controller+","):
			for line := range strings.Lines(string(own)) {
				if w := strings.SplitN(strings.TrimSpace(line), ":", 3); len(w) == 3 && strings.Contains(","+w[1]+",", ","+controller+",") {
					return filepath.Join(point, w[2]), true
				}
			}
		case f[2] == "cgroup2":
			there, _ := os.ReadFile(filepath.Join(point, "cgroup.controllers"))
			if !strings.Contains(" "+strings.TrimSpace(string(there))+" ", " "+controller+" ") {
				continue
			}
			handed := filepath.Join(point, "cgroup.subtree_control")
			before, _ := os.ReadFile(handed)
			if !strings.Contains(" "+strings.TrimSpace(string(before))+" ", " "+controller+" ") {
				if err := os.WriteFile(handed, []byte("+"+controller), 0); err != nil {
					continue
				}
				t.Cleanup(func() {
					if err := os.WriteFile(handed, []byte("-"+controller), 0); err != nil {
						t.Errorf("take cgroup controller %s back: %v", controller, err)
					}
				})
			}
			return point, true
		}
	}
	return "", false
}

// Every page was allocated before the server was ready, so it needs no more when others take the rest.
func TestTmpfsThatOthersFillWhileServingDoesNotMatter(t *testing.T) {
	seed, b := seedOf(t), smallDemo(t)
	dir := memory(t, bytesOf(b)+(8<<20))
	s := serve(t, options{model: b.Dir, shmDir: dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,8,32"}})
	l := &load{exam: newExam(t, b, seed, 1024, simulated(t, b.Manifest)), lanes: flat(s.lanes(2, 2)), callers: 8, seed: seed, rows: smallRows, deadline: patience}
	l.start()
	t.Cleanup(l.stop)
	l.progress(s, 50)

	others, err := os.Create(filepath.Join(dir, "others"))
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	piece, taken := make([]byte, 64<<10), int64(0)
	for n := len(piece); n > 0; {
		wrote, err := others.Write(piece[:n])
		if taken += int64(wrote); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			n /= 2
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Bavail != 0 {
		t.Fatalf("got %d blocks left after others took %d bytes (%v), want a full tmpfs", fs.Bavail, taken, err)
	}
	l.progress(s, 200)
	victim, owner := s.child("frontend", 0), s.owner()
	began := time.Now()
	send(t, victim, unix.SIGKILL)
	send(t, owner, unix.SIGKILL)
	s.awaitWhole(victim, owner)
	for _, lane := range l.lanes {
		lane.connect(t)
	}
	r := round{lanes: map[*lane]bool{}, began: began, ended: time.Now()}
	for _, lane := range l.lanes {
		r.lanes[lane] = true
	}
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, r.excuses)

	// Nor when everything has to start again: the tables are there, and the region's memory came back.
	s.killAll()
	s.start()
	s.awaitReady()
	s.wantAttached(true)
	s.probe(l.exam, seed)
}

func TestTablesThatAreCutOffWhileServingAreLoadedAgain(t *testing.T) {
	seed, b := seedOf(t), smallDemo(t)
	e := newExam(t, b, seed, 1024, simulated(t, b.Manifest))
	s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,8,32"}})
	for _, left := range []int64{4 << 20, 4096, 0} {
		before := inode(t, filesOf(s.instance, "/dev/shm"))
		l := &load{exam: e, lanes: flat(s.lanes(2, 2)), callers: 8, seed: seed, rows: smallRows, deadline: patience}
		l.start()
		t.Cleanup(l.stop)
		l.progress(s, 50)
		children := s.state().Children
		began := time.Now()
		if err := os.Truncate(filesOf(s.instance, "/dev/shm")[0], left); err != nil {
			t.Fatal(err)
		}
		s.awaitWhole(children...)
		t.Logf("cut off at %d bytes: whole again after %v", left, time.Since(began).Round(time.Millisecond))
		for _, lane := range l.lanes {
			lane.connect(t)
		}
		l.progress(s, 100)
		l.stop()
		l.wantRight(t)
		l.wantNoFailure(t, unavailable)
		if now := inode(t, filesOf(s.instance, "/dev/shm")); now == before {
			t.Errorf("got the same file %d as before, want another one", now)
		}
		if out, err := s.inspect("tables"); err != nil || strings.Contains(out, "unusable") {
			t.Errorf("inspect tables: got %v:\n%s", err, out)
		}
		s.wantAtRest()
	}
	s.wantProcesses(3)
}
