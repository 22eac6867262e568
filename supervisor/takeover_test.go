package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rankd/internal/testutil"

	"golang.org/x/sys/unix"
)

// takeoverConfig is for a supervisor in a process of its own, on an address that stays the same over its lives.
func takeoverConfig(t *testing.T) Config {
	t.Helper()
	cfg := Default()
	cfg.Listen, cfg.HTTP, cfg.Instance = testutil.Address(t), "127.0.0.1:0", testutil.Instance(t)
	cfg.RunDir, cfg.Frontends = t.TempDir(), 2
	return cfg
}

// awaitChildren waits until the server of supervisor pid has all its children, ready.
func awaitChildren(t *testing.T, cfg Config, pid int) *State {
	t.Helper()
	var st *State
	testutil.Eventually(t, limit, "a ready server", func() bool {
		var err error
		if st, err = ReadState(cfg.RunDir, cfg.Instance); err != nil || st.PID != pid || len(st.Children) != cfg.Frontends+1 {
			return false
		}
		s := &runningServer{cfg: cfg}
		return s.status().Ready
	})
	return st
}

func TestI4ChildrenEndWithAKilledSupervisorAndTheNextOneStarts(t *testing.T) {
	cfg := takeoverConfig(t)
	for range 3 {
		cmd, _ := supervisorProcess(t, cfg)
		st := awaitChildren(t, cfg, cmd.Process.Pid)
		kill(t, cmd.Process.Pid, unix.SIGKILL)
		for _, c := range st.Children {
			testutil.Eventually(t, 5*time.Second, fmt.Sprintf("%s %d to end", c.Role, c.PID), func() bool { return !(identity{c.PID, c.Start}).alive() })
		}
		_ = cmd.Wait()
	}
	cmd, log := supervisorProcess(t, cfg)
	awaitChildren(t, cfg, cmd.Process.Pid)
	kill(t, cmd.Process.Pid, unix.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("drain: %v\n%s", err, log)
	}
}

func TestI1OrphansOfAKilledSupervisorAreEnded(t *testing.T) {
	cfg := takeoverConfig(t)
	cmd, _ := supervisorProcess(t, cfg, behaviourEnv+"=immortal stubborn")
	st := awaitChildren(t, cfg, cmd.Process.Pid)
	kill(t, cmd.Process.Pid, unix.SIGKILL)
	_, _ = cmd.Process.Wait() // not cmd.Wait: the orphans hold its log open
	for _, c := range st.Children {
		if !(identity{c.PID, c.Start}).alive() {
			t.Fatalf("%s %d ended with its supervisor, want an orphan to test with", c.Role, c.PID)
		}
	}
	next, log := supervisorProcess(t, cfg)
	awaitChildren(t, cfg, next.Process.Pid)
	for _, c := range st.Children {
		if (identity{c.PID, c.Start}).alive() {
			t.Errorf("orphan %s %d is still there", c.Role, c.PID)
		}
	}
	if !strings.Contains(log.String(), "held by orphans") {
		t.Errorf("got log %s, want a word on orphans", log)
	}
	kill(t, next.Process.Pid, unix.SIGTERM)
	if err := next.Wait(); err != nil {
		t.Error(err)
	}
}

func TestI1SecondServerOfAnAddressIsRefused(t *testing.T) {
	cfg := takeoverConfig(t)
	first, _ := supervisorProcess(t, cfg)
	awaitChildren(t, cfg, first.Process.Pid)
	for name, change := range map[string]func(c *Config){
		"same address":  func(c *Config) { c.Instance = testutil.Instance(t) },
		"same instance": func(c *Config) { c.Listen = testutil.Address(t) },
		"same both":     func(*Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			other := cfg
			change(&other)
			second, log := supervisorProcess(t, other)
			err := second.Wait()
			if err == nil || !strings.Contains(log.String(), fmt.Sprintf("process %d serves it already", first.Process.Pid)) {
				t.Errorf("got %v and log %s, want a refusal that names process %d", err, log, first.Process.Pid)
			}
		})
	}
	if st, err := FindState(cfg.RunDir, "", cfg.Listen); err != nil || st.PID != first.Process.Pid {
		t.Errorf("got state %+v, %v by the address, want that of the first server", st, err)
	}
	if st, err := FindState(cfg.RunDir, "", "127.0.0.1:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got state %+v, %v by an address that nobody serves, want %v", st, err, fs.ErrNotExist)
	}
	if st, err := FindState(cfg.RunDir, cfg.Instance, ""); err != nil || st.PID != first.Process.Pid {
		t.Errorf("got state %+v, %v, want that of the first server", st, err)
	}
	if st := (&runningServer{cfg: cfg}).status(); !st.Ready || st.PID != first.Process.Pid {
		t.Errorf("got %+v, want the first server to serve on", st)
	}
	kill(t, first.Process.Pid, unix.SIGTERM)
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTerminalInterruptReachesOnlyTheSupervisor(t *testing.T) {
	cfg := takeoverConfig(t)
	cmd, _ := supervisorProcess(t, cfg)
	st := awaitChildren(t, cfg, cmd.Process.Pid)
	for _, c := range st.Children {
		group, err := unix.Getpgid(c.PID)
		if err != nil || group != c.PID {
			t.Errorf("%s: got process group %d, %v, want its own, %d", c.Role, group, err, c.PID)
		}
	}
	kill(t, cmd.Process.Pid, unix.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v after an interrupt, want a clean drain", err)
	}
}

func TestOnlyTheRecordedProcessIsEnded(t *testing.T) {
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	id, err := identify(sleeper.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	st := State{Version: stateVersion, Instance: "x", Children: []Child{{Role: roleOwner, PID: id.PID, Start: id.Start + 1}}}
	if err := st.write(dir); err != nil {
		t.Fatal(err)
	}
	if err := endOrphans(dir, "x"); err != nil || !id.alive() {
		t.Fatalf("got %v alive %v for a process with another start time, want it left alone", err, id.alive())
	}
	st.Children[0].Start--
	if err := st.write(dir); err != nil {
		t.Fatal(err)
	}
	if err := endOrphans(dir, "x"); err != nil || id.alive() {
		t.Fatalf("got %v alive %v for the recorded process, want it ended", err, id.alive())
	}
	if err := endOrphans(dir, "none"); err != nil {
		t.Errorf("got %v without a state file, want nothing", err)
	}
}

func TestPortHeldByAnotherProgramIsRefused(t *testing.T) {
	for name, share := range map[string]bool{"alone": false, "with SO_REUSEPORT": true} {
		t.Run(name, func(t *testing.T) {
			want, err := resolve("listen", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			fd, held, err := bindOne(want, share)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := unix.Listen(fd, 1); err != nil {
				t.Fatal(err)
			}
			if l, err := bind(held, 2); err == nil || !strings.Contains(err.Error(), "another program holds this port") {
				t.Errorf("got %v, %v, want a refusal", l, err)
			}
		})
	}
}

func TestBindGivesEveryFrontendASocketOfOneAddress(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0", ":0", "0.0.0.0:0"} {
		t.Run(address, func(t *testing.T) {
			want, err := resolve("listen", address)
			if err != nil {
				t.Fatal(err)
			}
			l, err := bind(want, 4)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if len(l.fds) != 4 || l.address.Port() == 0 {
				t.Fatalf("got %+v, want four sockets on a port", l)
			}
			for _, fd := range l.fds {
				sa, err := unix.Getsockname(fd)
				if err != nil || portOf(sa) != l.address.Port() {
					t.Errorf("got %+v, %v, want port %d", sa, err, l.address.Port())
				}
				flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				cloexec, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if flags&unix.O_NONBLOCK == 0 || cloexec&unix.FD_CLOEXEC == 0 {
					t.Errorf("got flags %#x and %#x, want non-blocking and close-on-exec", flags, cloexec)
				}
			}
			host := l.address.Addr().String()
			if l.address.Addr().IsUnspecified() {
				host = "127.0.0.1" // the wildcard takes IPv4, whichever family it is
			}
			to := net.JoinHostPort(host, fmt.Sprint(l.address.Port()))
			if conn, err := net.DialTimeout("tcp", to, time.Second); err == nil {
				conn.Close()
				t.Error("got a connection before listen, want it refused")
			}
			if err := l.listen(); err != nil {
				t.Fatal(err)
			}
			dial(t, to).Close()
		})
	}
	if _, err := resolve("listen", "no port"); err == nil {
		t.Error("got an address from nonsense")
	}
}

func TestI6OnlyFilesOfThisInstanceAreRemoved(t *testing.T) {
	dir := t.TempDir()
	names := []string{"rankd.a.ring", "rankd.a.tables.x", "rankd.a-b.ring", "rankd.ab.ring", "rankd.a", "other.rankd.a.x", "rankd.b.a.x"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := removeLeftovers([]string{dir, filepath.Join(dir, "missing")}, "a", func(path string) bool { return isTables(path, "a") })
	if err != nil || len(removed) != 1 || filepath.Base(removed[0]) != "rankd.a.ring" {
		t.Errorf("got %q, %v removed, want rankd.a.ring alone", removed, err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != len(names)-1 {
		t.Errorf("got %d files left, want %d", len(left), len(names)-1)
	}
}

func TestInstanceNames(t *testing.T) {
	for address, want := range map[string]string{"127.0.0.1:8500": "127-0-0-1-8500", "[::]:8500": "8500", "[fe80::1%eth0]:1": "fe80--1-eth0--1"} {
		if got := instanceFor(address); got != want || !instanceName.MatchString(got) {
			t.Errorf("instance for %s: got %q, want %q", address, got, want)
		}
	}
	cfg := Default()
	cfg.Instance, cfg.Frontends, cfg.BackoffFirst = "a.b", 65, time.Minute
	err := cfg.Validate()
	for _, want := range []string{"--instance", "--frontends", "--restart-backoff"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a word on %s", err, want)
		}
	}
	good := Default()
	if err := good.Validate(); err != nil {
		t.Errorf("validate the default: %v", err)
	}
}

func TestClosedTerminalDrainsTheServer(t *testing.T) {
	if signal.Ignored(unix.SIGHUP) { // under nohup a closed terminal is no reason to end, for the server and for this test
		t.Skip("SIGHUP is ignored by whoever started this test")
	}
	cfg := takeoverConfig(t)
	cmd, log := supervisorProcess(t, cfg)
	awaitChildren(t, cfg, cmd.Process.Pid)
	kill(t, cmd.Process.Pid, unix.SIGHUP)
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v after SIGHUP, want a complete drain\n%s", err, log)
	}
}
