package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// memory is a tmpfs of so many bytes, unmounted at the end of the test.
func memory(t testing.TB, bytes int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts a tmpfs: run as root")
	}
	dir := t.TempDir()
	if err := unix.Mount("rankd-e2e", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		t.Skipf("mounts a tmpfs, which is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		err := unix.Unmount(dir, 0)
		if err != nil {
			t.Errorf("unmount tmpfs: %v: something still uses it", err)
			err = unix.Unmount(dir, unix.MNT_DETACH)
		}
		if err != nil {
			t.Errorf("unmount tmpfs: %v", err)
		}
	})
	return dir
}

// probe asks for a few rows over a connection of its own.
func (s *server) probe(e *exam, seed uint64) {
	s.t.Helper()
	rng := random(seed, "probe")
	for range 4 {
		l := s.dial()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if _, err := e.ask(ctx, l, e.pick(rng, 40), perTable, rng.IntN(3)); err != nil {
			s.t.Errorf("ask after a start: %v", err)
		}
		cancel()
		l.conn.Close()
	}
}

func (s *server) wantAttached(want bool) {
	s.t.Helper()
	st := s.status()
	if st == nil || st.Tables == nil || st.Tables.Attached != want {
		s.t.Errorf("got status %+v, want tables with attached %v", st, want)
	}
	if said := strings.Contains(s.logSinceStart(), fmt.Sprintf(`"attached":%v`, want)); !said {
		s.t.Errorf("the log since the start does not say that tables were attached: %v", want)
	}
}

// A server that is killed again and again must neither lose its tables nor keep a second copy: there is no room for one.
func TestKilledServersStartAgainWhereTwoCopiesHaveNoRoom(t *testing.T) {
	seed, b, other := seedOf(t), demoModel(t, "demo-large", 5000), testModel(t)
	copyBytes := int64(0)
	for _, table := range b.Manifest.Tables {
		copyBytes += table.Bytes()
	}
	dir := memory(t, copyBytes*13/10)
	flags := []string{"--executor=sim", "--sim-verify=full", "--buckets=1,8,32", "--frontends=2"}
	e := newExam(t, b, seed, 512, simulated(t, b.Manifest))

	neighbour := serve(t, options{model: other.Dir, flags: flags, shmDir: dir})
	undisturbed := &load{
		exam: newExam(t, other, seed, 512, simulated(t, other.Manifest)), callers: 2, seed: seed, rows: smallRows,
		lanes: flat(neighbour.lanes(2, 1)), deadline: patience,
	}
	before, file := fmt.Sprint(neighbour.state().Children), inode(t, filesOf(neighbour.instance, dir))
	t.Cleanup(undisturbed.start().stop)

	t.Run("five times all at once", func(t *testing.T) {
		s := serve(t, options{model: b.Dir, flags: flags, shmDir: dir})
		s.wantAttached(false)
		for range 5 {
			s.probe(e, seed)
			s.killAll()
			s.start()
			s.awaitReady()
			s.wantAttached(true)
			if files := filesOf(s.instance, dir); len(files) != 1 {
				t.Errorf("got files %q, want the tables alone", files)
			}
		}
		s.probe(e, seed)
	})
	t.Run("halfway through loading", func(t *testing.T) {
		s := newServer(t, options{model: b.Dir, flags: flags, shmDir: dir, tags: []string{"faults"}})
		for _, chunk := range []int{1, 5, 13, 25} {
			s.o.env = []string{fmt.Sprintf("RANKD_FAULTS=tables.chunk=kill@%d", chunk)}
			s.start()
			s.awaitEnd(limit)
			if files := filesOf(s.instance, dir); len(files) != 1 {
				t.Fatalf("got files %q after a kill in chunk %d, want the unfinished tables", files, chunk)
			}
			if out, _ := s.inspect("tables"); !strings.Contains(out, "unusable") {
				t.Errorf("inspect tables: got %q, want unusable ones", out)
			}
		}
		s.o.env = nil
		s.start()
		s.awaitReady()
		s.wantAttached(false)
		s.probe(e, seed)
	})
	undisturbed.progress(neighbour, 20)
	undisturbed.stop()
	undisturbed.wantRight(t)
	undisturbed.wantNoFailure(t, noExcuse)
	if now := fmt.Sprint(neighbour.state().Children); now != before {
		t.Errorf("got processes %s of the other instance, want %s as before", now, before)
	}
	if now := inode(t, filesOf(neighbour.instance, dir)); now != file {
		t.Errorf("got file %d of the other instance, want %d as before", now, file)
	}
	neighbour.wantAtRest()
}

func inode(t testing.TB, files []string) uint64 {
	t.Helper()
	if len(files) != 1 {
		t.Fatalf("got files %q, want one", files)
	}
	var st unix.Stat_t
	if err := unix.Stat(files[0], &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestKeptTablesAreAttachedAndNotLoadedAgain(t *testing.T) {
	seed, b, other := seedOf(t), smallDemo(t), testModel(t)
	e := newExam(t, b, seed, 512, simulated(t, b.Manifest))
	flags := []string{"--executor=sim", "--sim-verify=full", "--buckets=1,8,32"}
	s := serve(t, options{model: b.Dir, flags: append([]string{"--keep-tables"}, flags...)})
	s.keep = true
	s.wantAttached(false)
	s.probe(e, seed)
	s.stop()
	kept := inode(t, filesOf(s.instance, "/dev/shm"))

	s.start()
	s.awaitReady()
	s.wantAttached(true)
	s.probe(e, seed)
	if now := inode(t, filesOf(s.instance, "/dev/shm")); now != kept {
		t.Errorf("got file %d after the second start, want %d as kept", now, kept)
	}
	s.stop()

	// Another model under the same name has no use for them.
	s.o.model = other.Dir
	s.start()
	s.awaitReady()
	s.wantAttached(false)
	if now := inode(t, filesOf(s.instance, "/dev/shm")); now == kept {
		t.Errorf("got the same file %d for another model", now)
	}
	s.probe(newExam(t, other, seed, 512, simulated(t, other.Manifest)), seed)
	s.stop()

	// And back, without the flag: nothing is left in the end, which stop checks.
	s.o.model, s.o.flags, s.keep = b.Dir, flags, false
	s.start()
	s.awaitReady()
	s.wantAttached(false)
	s.probe(e, seed)
}

// What stands in a kept file is only believed as far as it can be checked.
func TestSpoiltTablesAreLoadedAgain(t *testing.T) {
	seed, b := seedOf(t), smallDemo(t)
	e := newExam(t, b, seed, 512, simulated(t, b.Manifest))
	for name, spoil := range map[string]func(f *os.File) error{
		"cut off":      func(f *os.File) error { return f.Truncate(1 << 20) },
		"empty":        func(f *os.File) error { return f.Truncate(0) },
		"no magic":     func(f *os.File) error { _, err := f.WriteAt(make([]byte, 8), 0); return err },
		"other header": func(f *os.File) error { _, err := f.WriteAt([]byte{0xff}, 0x14); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--buckets=1,8,32"}})
			s.killAll()
			files := filesOf(s.instance, "/dev/shm")
			inode(t, files)
			f, err := os.OpenFile(files[0], os.O_RDWR, 0)
			if err == nil {
				err = spoil(f)
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			s.start()
			s.awaitReady()
			s.wantAttached(false)
			s.probe(e, seed)
		})
	}
}

func TestServerThatIsStoppedWhileItLoadsLeavesNothing(t *testing.T) {
	b := smallDemo(t)
	s := newServer(t, options{
		model: b.Dir, tags: []string{"faults"}, env: []string{"RANKD_FAULTS=tables.chunk=sleep:300ms"},
		flags: []string{"--executor=sim", "--buckets=1"},
	})
	s.start()
	said := ""
	s.until(limit, "half of the tables", func() bool {
		if st := s.state(); st != nil && st.HTTP != "" {
			s.http = st.HTTP
			_, said, _ = s.get("/readyz")
		}
		var percent int
		n, _ := fmt.Sscanf(said, "loading tables: %d %%", &percent)
		return n == 1 && percent > 33 // allocating is a third, copying and checking are the rest
	}, func() string { return said })
	if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.awaitEnd(limit)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("got %v after %v, want exit code 0", s.cmd.ProcessState, time.Since(began))
	}
	s.wantGone()
}
