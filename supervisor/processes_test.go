package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rankd/internal/testutil"
	"rankd/shmring"

	"golang.org/x/sys/unix"
)

func kill(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("kill: got pid %d", pid)
	}
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatalf("send %v to %d: %v", sig, pid, err)
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(limit))
	return conn
}

func TestServerStartsServesAndDrainsInOrder(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	st := s.awaitReady()
	if len(st.Processes) != 3 || st.Listen == "127.0.0.1:0" {
		t.Fatalf("got %+v, want three processes and the port bound", st)
	}
	conn := dial(t, st.Listen)
	line, err := bufio.NewReader(conn).ReadString('\n')
	conn.Close()
	if err != nil || !strings.HasPrefix(line, "frontend ") {
		t.Fatalf("got %q, %v, want an answer of a frontend", line, err)
	}
	if err := s.stop(); err != nil {
		t.Fatalf("drain: %v", err)
	}
	lines := s.journalLines()
	at := func(l string) int { return slices.Index(lines, l) }
	order := []string{"deviceowner 0/1 ready", "frontend 0/1 ready", "frontend 0/1 asked", "frontend 0/1 exits", "deviceowner 0/1 asked", "deviceowner 0/1 exits"}
	for i := 1; i < len(order); i++ {
		if at(order[i-1]) < 0 || at(order[i]) < at(order[i-1]) {
			t.Fatalf("got journal %q, want the order %q", lines, order)
		}
	}
	if at("frontend 1/1 exits") > at("deviceowner 0/1 asked") {
		t.Errorf("got journal %q, want every frontend gone before the owner is asked", lines)
	}
	if !s.ring.draining {
		t.Error("the ring was not told of the drain")
	}
	if _, err := ReadState(s.cfg.RunDir, s.cfg.Instance); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got state file error %v after the end, want it removed", err)
	}
}

func TestI2FrontendIsReplacedOnlyAfterTheRingRecovered(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	before := s.awaitReady()
	victim := before.Processes[2] // frontend 1
	s.ring.with(func() { s.ring.held[1] = true })
	rung := 0
	s.ring.with(func() { rung = s.ring.rung })
	kill(t, victim.PID, unix.SIGKILL)
	st := s.await("the death to be seen", func(st Status) bool { return st.Processes[2].Restarts == 1 })
	if got := st.Processes[2]; got.PID != 0 || got.State != "waiting for the ring to recover" || got.LastEnd != "signal SIGKILL" {
		t.Errorf("got %+v, want an empty place that waits for the ring", got)
	}
	if !st.Ready {
		t.Errorf("got not ready: %s, want the other frontend to serve on", st.Reason)
	}
	s.ring.with(func() {
		if s.ring.dead[1] != 1 {
			t.Errorf("got incarnation %d marked dead, want 1", s.ring.dead[1])
		}
		if s.ring.rung <= rung {
			t.Error("I5: no doorbell was rung")
		}
		s.ring.held[1] = false
	})
	st = s.awaitReady()
	if got := st.Processes[2]; got.Incarnation != 2 || got.PID == victim.PID {
		t.Errorf("got %+v, want incarnation 2", got)
	}
	if st.Processes[0].PID != before.Processes[0].PID || st.Processes[1].PID != before.Processes[1].PID {
		t.Error("other processes were restarted too")
	}
}

func TestI8ConnectionsQueuedAtADeadFrontendGoToItsSuccessor(t *testing.T) {
	s := testServer(t, nil)
	s.cfg.Frontends = 1
	s.start()
	st := s.awaitReady()
	s.ring.with(func() { s.ring.held[0] = true })
	kill(t, st.Processes[1].PID, unix.SIGKILL)
	s.await("the death to be seen", func(st Status) bool { return st.Processes[1].Restarts == 1 })
	conn := dial(t, st.Listen) // nobody is there, but the queue is
	defer conn.Close()
	s.ring.with(func() { s.ring.held[0] = false })
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "frontend 0/2\n" {
		t.Errorf("got %q, %v, want an answer of incarnation 2", line, err)
	}
}

func TestI3OwnerThatWasReadyIsReplacedAtOnce(t *testing.T) {
	s := testServer(t, nil)
	s.cfg.BackoffFirst, s.cfg.BackoffLimit = time.Minute, time.Minute // any back-off would exceed the test's limit
	s.start()
	st := s.awaitReady()
	kill(t, st.Processes[0].PID, unix.SIGKILL)
	st = s.await("a second owner", func(st Status) bool {
		return st.Ready && st.Processes[0].Incarnation == 2 && st.Processes[0].State == "ready"
	})
	if st.Processes[1].Incarnation != 1 || st.Processes[2].Incarnation != 1 {
		t.Errorf("got %+v, want the frontends to live on", st.Processes)
	}
	want := []shmring.OwnerState{shmring.OwnerStarting, shmring.OwnerUp, shmring.OwnerRestarting, shmring.OwnerUp}
	s.ring.with(func() {
		if !slices.Equal(s.ring.states, want) || s.ring.ownerDead != 1 {
			t.Errorf("got states %v and dead owner %d, want %v and 1", s.ring.states, s.ring.ownerDead, want)
		}
	})
}

func TestI3OwnerThatDiesFiveTimesAtStartComesUp(t *testing.T) {
	s := testServer(t, map[string]string{roleOwner: "early:5"})
	s.start()
	st := s.awaitReady()
	if got := st.Processes[0]; got.Incarnation != 6 || got.Restarts != 5 || got.LastEnd != "exit code 1: "+earlyWords {
		t.Errorf("got %+v, want the sixth incarnation", got)
	}
	if n := s.ring.seen(shmring.OwnerBackoff); n != 5 {
		t.Errorf("got %d times in back-off, want 5", n)
	}
}

func TestServerIsNotReadyWhileTheOwnerBacksOff(t *testing.T) {
	s := testServer(t, map[string]string{roleOwner: "early:1"})
	s.cfg.BackoffFirst, s.cfg.BackoffLimit = time.Minute, time.Minute
	s.start()
	testutil.Eventually(t, limit, "the reason on /readyz", func() bool {
		code, body := s.get("/readyz")
		return code == 503 && strings.Contains(body, "backing off, the last one ended with exit code 1: "+earlyWords+", next start in")
	})
	if code, body := s.get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("got /healthz %d %q, want 200 ok", code, body)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop while backing off: %v", err)
	}
}

func TestHungOwnerIsKilledAndReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		oldest time.Duration
		frozen bool
		why    string
	}{
		"launch": {oldest: time.Hour, why: "killed: launch too old"},
		"loop":   {frozen: true, why: "killed: loop stands still"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testServer(t, nil)
			s.cfg.DeviceHang = 600 * time.Millisecond
			s.start()
			st := s.awaitReady()
			if c.frozen {
				kill(t, st.Processes[0].PID, unix.SIGSTOP)
			}
			s.ring.with(func() { s.ring.oldest, s.ring.frozen = c.oldest, c.frozen })
			s.await("the owner to be killed", func(st Status) bool { return st.Processes[0].Restarts == 1 })
			s.ring.with(func() { s.ring.frozen = false })
			st = s.awaitReady()
			if got := st.Processes[0]; got.Incarnation != 2 || got.LastEnd != c.why {
				t.Errorf("got %+v, want incarnation 2 after %q", got, c.why)
			}
			if n := s.ring.seen(shmring.OwnerBackoff); n != 1 {
				t.Errorf("got %d times not serving, want 1", n)
			}
		})
	}
}

func TestStragglerIsKilledOnTheOwnersRequest(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	s.awaitReady()
	s.ring.with(func() { s.ring.kill[0] = 1 }) // the request stays, but names incarnation 1 only
	st := s.await("a second incarnation", func(st Status) bool { return st.Processes[1].Incarnation == 2 && st.Processes[1].State == "ready" })
	if got := st.Processes[1]; got.LastEnd != "killed: held up a batch" {
		t.Errorf("got %+v, want it killed as a straggler", got)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if got := s.journalLines(); slices.Contains(got, "frontend 0/3 ready") {
		t.Error("the second incarnation was killed for the first one's fault")
	}
}

func TestMuteChildIsKilledAfterItsTime(t *testing.T) {
	s := testServer(t, map[string]string{roleOwner: "mute"})
	s.cfg.OwnerReady = 150 * time.Millisecond
	s.start()
	st := s.await("two kills", func(st Status) bool { return st.Processes[0].Restarts >= 2 })
	if got := st.Processes[0].LastEnd; !strings.Contains(got, "wait for ready line: none after 150ms") {
		t.Errorf("got end %q, want the missing ready line", got)
	}
}

func TestChildOfAnotherLayoutIsRefused(t *testing.T) {
	s := testServer(t, nil)
	s.deps.Layout = testLayout + 1
	s.start()
	s.await("a refusal", func(st Status) bool {
		return strings.Contains(st.Processes[0].LastEnd, `got "ready layout=7 incarnation=1", want "ready layout=8 incarnation=1"`)
	})
}

func TestBadConfigurationEndsTheServer(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "code:78"})
	s.start()
	if err := s.end(); !errors.Is(err, ErrBadConfig) {
		t.Errorf("got %v, want ErrBadConfig", err)
	}
}

// A bundle whose files vanish under a server that works must not end that server.
func TestBadConfigurationOfAPlaceThatHasWorkedOnlyBacksOff(t *testing.T) {
	s := testServer(t, map[string]string{roleOwner: "second:78"})
	s.start()
	st := s.awaitReady()
	kill(t, st.Processes[0].PID, unix.SIGKILL)
	st = s.await("further starts", func(st Status) bool { return st.Processes[0].Incarnation >= 3 })
	if st.Phase != string(phaseServing) || st.Processes[1].State != "ready" {
		t.Errorf("got phase %s and a frontend that is %s, want both as before", st.Phase, st.Processes[1].State)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func TestCorruptRegionIsMadeAnewAndAllChildrenRestarted(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "later:3"})
	regions := 0
	makeRegion := s.deps.NewRegion
	s.deps.NewRegion = func(ctx context.Context, bells []int) (*Region, error) {
		regions++
		return makeRegion(ctx, bells)
	}
	s.start()
	st := s.awaitReady()
	kill(t, st.Processes[1].PID, unix.SIGUSR1)
	st = s.await("everyone's second incarnation", func(st Status) bool {
		return st.Ready && !slices.ContainsFunc(st.Processes, func(p ProcessStatus) bool { return p.Incarnation != 2 || p.State != "ready" })
	})
	if st.Phase != string(phaseServing) {
		t.Errorf("got phase %s, want serving", st.Phase)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if regions != 2 {
		t.Errorf("got %d regions, want 2", regions)
	}
}

func TestDamagedTablesAreLoadedAgainAndAllChildrenRestarted(t *testing.T) {
	s := testServer(t, nil)
	loads, damaged := 0, atomic.Bool{}
	load := s.deps.LoadTables
	s.deps.LoadTables = func(ctx context.Context, instance string, progress func(done, total int64)) (*Tables, error) {
		loads++
		damaged.Store(false)
		t, err := load(ctx, instance, progress)
		if err == nil {
			t.Check = func() error {
				if damaged.Load() {
					return errors.New("somebody has cut them off")
				}
				return nil
			}
		}
		return t, err
	}
	s.start()
	s.awaitReady()
	damaged.Store(true)
	st := s.await("everyone's second incarnation", func(st Status) bool {
		return st.Ready && !slices.ContainsFunc(st.Processes, func(p ProcessStatus) bool { return p.Incarnation != 2 || p.State != "ready" })
	})
	if st.Phase != string(phaseServing) || st.Tables == nil {
		t.Errorf("got phase %s and tables %v, want serving with tables", st.Phase, st.Tables)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if loads != 2 {
		t.Errorf("got the tables loaded %d times, want twice", loads)
	}
}

// The Go runtime ends a program that has crashed with exit code 2.
func TestCrashOfAChildIsNoBadConfiguration(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "later:2"})
	s.start()
	st := s.awaitReady()
	kill(t, st.Processes[1].PID, unix.SIGUSR1)
	s.await("the successor of the one that crashed", func(st Status) bool {
		return st.Ready && st.Processes[1].Incarnation == 2 && st.Processes[1].State == "ready"
	})
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func TestI7SecondSignalEndsTheDrainAtOnce(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "stubborn"})
	s.cfg.DrainTimeout = time.Hour
	s.start()
	s.awaitReady()
	s.signals <- syscall.SIGTERM
	s.await("the drain", func(st Status) bool { return st.Phase == string(phaseDraining) })
	if code, body := s.get("/readyz"); code != 503 || body != "draining\n" {
		t.Errorf("got /readyz %d %q, want 503 draining", code, body)
	}
	s.signals <- syscall.SIGTERM // the echo of the first, as timeout(1) sends it
	select {
	case err := <-s.result:
		t.Fatalf("got the end %v after an echo of the first signal, want the drain to go on", err)
	case <-time.After(repeated / 2):
	}
	s.signals <- os.Interrupt
	if err := s.end(); !errors.Is(err, ErrCut) {
		t.Errorf("got %v, want ErrCut", err)
	}
	if lines := strings.Split(strings.TrimSpace(s.log.String()), "\n"); !strings.Contains(lines[len(lines)-1], `"msg":"stopped"`) {
		t.Errorf("got the last record %s, want that of the end", lines[len(lines)-1])
	}
}

func TestSameSignalLaterIsASecondOne(t *testing.T) {
	var r request
	start := time.Unix(1000, 0)
	for i, step := range []struct {
		by    string
		after time.Duration
		echo  bool
	}{
		{"terminated", 0, false},
		{"terminated", repeated - 1, true},
		{"terminated", repeated, false},
		{"interrupt", repeated, false},
		{"hangup", repeated + 1, false},
		{"hangup", repeated + 2, true},
	} {
		if got := r.again(step.by, start.Add(step.after)); got != step.echo {
			t.Errorf("step %d: got echo %v, want %v", i, got, step.echo)
		}
	}
}

func TestCallsAreRefusedOnlyAfterTheDrainDelay(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "stubborn"}) // they stay, as if they were in their delay
	s.cfg.DrainDelay, s.cfg.DrainTimeout = 300*time.Millisecond, 0
	s.start()
	s.awaitReady()
	began := time.Now()
	s.signals <- unix.SIGTERM
	s.await("the drain", func(st Status) bool { return st.Phase == string(phaseDraining) })
	s.ring.with(func() {
		if s.ring.draining && time.Since(began) < s.cfg.DrainDelay {
			t.Error("the ring was told of the drain before the delay was over")
		}
	})
	testutil.Eventually(t, 10*time.Second, "the ring to be told of the drain", func() (told bool) {
		s.ring.with(func() { told = s.ring.draining })
		return told
	})
	if err := s.end(); !errors.Is(err, ErrCut) {
		t.Errorf("got %v, want ErrCut", err)
	}
	if took := time.Since(began); took < s.cfg.DrainDelay+exitGrace {
		t.Errorf("frontends were killed after %v, want the delay of %v and %v for their exit first", took, s.cfg.DrainDelay, exitGrace)
	}
}

func TestI7DrainIsBounded(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "stubborn"})
	s.cfg.DrainTimeout = 0
	s.start()
	s.awaitReady()
	began := time.Now()
	if err := s.stop(); !errors.Is(err, ErrCut) {
		t.Errorf("got %v, want ErrCut", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("got a drain of %v, want about %v", took, exitGrace)
	}
}

func TestI7ProcessesLeftByAChildDoNotHoldUpTheEnd(t *testing.T) {
	s := testServer(t, map[string]string{roleOwner: "litter"})
	s.start()
	s.awaitReady()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	pid := 0
	for _, line := range s.journalLines() {
		_, _ = fmt.Sscanf(line, "litter %d", &pid)
	}
	kill(t, pid, unix.SIGKILL) // it outlived its parents: were it gone, there was nothing to be held up by
	testutil.Eventually(t, limit, "the output to end", func() bool { _, err := identify(pid); return err != nil })
}

func TestOwnerIsReplacedForCallsThatAreDrained(t *testing.T) {
	s := testServer(t, map[string]string{roleFrontend: "stubborn later:0"})
	s.cfg.DrainTimeout = time.Hour
	s.start()
	st := s.awaitReady()
	s.signals <- syscall.SIGTERM
	s.await("the drain", func(st Status) bool { return st.Phase == string(phaseDraining) })
	kill(t, st.Processes[0].PID, unix.SIGKILL)
	st = s.await("a second owner", func(st Status) bool { return st.Processes[0].Incarnation == 2 && st.Processes[0].State == "ready" })
	for _, p := range st.Processes[1:] {
		kill(t, p.PID, unix.SIGUSR1) // the last calls are done
	}
	if err := s.end(); err != nil {
		t.Errorf("got %v, want a complete drain", err)
	}
}

func TestStopWhileLoadingEndsCleanly(t *testing.T) {
	s := testServer(t, nil)
	s.deps.LoadTables = func(ctx context.Context, _ string, progress func(done, total int64)) (*Tables, error) {
		progress(1<<20, 4<<20)
		<-ctx.Done()
		return nil, fmt.Errorf("load table: %w", ctx.Err())
	}
	s.start()
	testutil.Eventually(t, limit, "progress on /readyz", func() bool {
		code, body := s.get("/readyz")
		return code == 503 && body == "loading tables: 25 % of 4.00 MiB\n"
	})
	if err := s.stop(); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	if lines := s.journalLines(); len(lines) != 1 || lines[0] != "" {
		t.Errorf("got children %q, want none", lines)
	}
}

// A source that is stuck in the kernel does not see that its context is done.
func TestSecondSignalWhileLoadingDoesNotWait(t *testing.T) {
	s := testServer(t, nil)
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	s.deps.LoadTables = func(_ context.Context, _ string, progress func(done, total int64)) (*Tables, error) {
		progress(1<<20, 4<<20)
		<-stuck
		return nil, errors.New("stuck")
	}
	s.start()
	testutil.Eventually(t, limit, "loading", func() bool { code, _ := s.get("/readyz"); return code == 503 })
	s.signals <- os.Interrupt
	if err := s.stop(); !errors.Is(err, ErrCut) {
		t.Errorf("got %v, want %v", err, ErrCut)
	}
}

func TestFailedLoadIsTheResult(t *testing.T) {
	s := testServer(t, nil)
	want := errors.New("digest differs")
	s.deps.LoadTables = func(context.Context, string, func(done, total int64)) (*Tables, error) { return nil, want }
	s.start()
	if err := s.end(); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestTablesAreRemovedUnlessKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) {
			s := testServer(t, nil)
			s.cfg.KeepTables = keep
			path := s.deps.ShmDirs[0] + "/rankd." + s.cfg.Instance + ".tables.abc"
			stale := s.deps.ShmDirs[0] + "/rankd." + s.cfg.Instance + ".tables.old"
			load := s.deps.LoadTables
			s.deps.LoadTables = func(ctx context.Context, instance string, progress func(done, total int64)) (*Tables, error) {
				t, err := load(ctx, instance, progress)
				t.Memory.Path, t.Remove = path, func() error { return os.Remove(path) }
				return t, errors.Join(err, os.WriteFile(path, nil, 0o600), os.WriteFile(stale, nil, 0o600))
			}
			s.start()
			s.awaitReady()
			if _, err := os.Stat(stale); err == nil {
				t.Error("a stale segment was left")
			}
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); (err == nil) != keep {
				t.Errorf("got %v for the segment, want it there: %v", err, keep)
			}
		})
	}
}
