package systemd

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// slowLoad: a start may take longer than its timeout as long as more is loaded, and no longer than that when nothing is.
func slowLoad(t *testing.T, s *service) {
	s.faulty(t, "tables.chunk=sleep:1500ms")
	s.forget()
	began := time.Now()
	s.start(t)
	took := elapsed(began)
	if took < 5*time.Second {
		t.Fatalf("the start took %v, want it slower than its timeout of 4 s", took)
	}
	s.awaitReady(t)
	t.Logf("started in %v with TimeoutStartSec=4", took)
	s.m.run("systemctl", "stop", s.unit)
	s.forget()

	s.faulty(t, "tables.chunk=freeze@2")
	s.m.dropInMore(t, s.unit, "stuck", "[Service]\nRestart=no\n")
	if out, err := s.m.try("systemctl", "start", s.unit); err == nil {
		t.Fatalf("a load that stands still: got no error: %s", out)
	}
	if got := s.m.show(s.unit, "Result"); got != "timeout" {
		t.Errorf("a load that stands still: got result %q, want timeout", got)
	}
}

// watchdog: a loop that stands still ends the server; batches that take longer than the watchdog's time do not.
func watchdog(t *testing.T, s *service) {
	s.configure("max-request-rows: 1") // so that a frontend warms itself with one batch
	t.Cleanup(func() { s.configure("") })
	s.m.dropIn(t, s.unit, "[Service]\nWatchdogSec=4\nEnvironment=RANKD_SIM_CALL=6s\n")
	s.start(t)
	if err := s.score(t, s.dial(t)); err != nil {
		t.Errorf("a batch of 6 s: %v", err)
	}
	if got := s.m.show(s.unit, "NRestarts"); got != "0" {
		t.Errorf("batches of 6 s: got %s restarts, want none", got)
	}
	s.m.run("systemctl", "stop", s.unit)
	s.m.dropInMore(t, s.unit, "fast", "[Service]\nEnvironment=RANKD_SIM_CALL=350us\n")
	s.m.run("systemctl", "start", s.unit)
	before := s.awaitReady(t)
	s.signal("STOP", s.pidOf(t, "deviceowner", 0))
	within(t, "systemd to end the hung server and start another", func() bool { return s.m.show(s.unit, "NRestarts") == "1" })
	after := s.awaitReady(t)
	if after.PID == before.PID || !after.Tables.Attached {
		t.Errorf("got process %d after %d, tables %+v", after.PID, before.PID, after.Tables)
	}
	if out := s.m.run("journalctl", "--no-pager", "-u", s.unit); !strings.Contains(out, "Watchdog timeout") {
		t.Errorf("got no watchdog in the journal:\n%s", tail(out))
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
}

// outcome is a call of stopUnderLoad.
type outcome struct {
	began time.Time
	err   error
}

// stopUnderLoad: every call that was begun before the stop is answered, and the stop is in order.
func stopUnderLoad(t *testing.T, s *service) {
	s.m.dropIn(t, s.unit, "[Service]\nEnvironment=RANKD_SIM_CALL=300ms\n")
	s.start(t)
	var mu sync.Mutex
	var calls []outcome
	var callers sync.WaitGroup
	done := make(chan struct{})
	for range 20 {
		c := s.dial(t)
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				x := outcome{began: time.Now()}
				x.err = s.score(t, c)
				mu.Lock()
				calls = append(calls, x)
				mu.Unlock()
				if x.err != nil {
					return
				}
			}
		})
	}
	within(t, "calls to be answered", func() bool { mu.Lock(); defer mu.Unlock(); return len(calls) > 100 })
	asked := time.Now()
	s.m.run("systemctl", "stop", s.unit)
	close(done)
	callers.Wait()
	answered, refused := 0, 0
	for _, c := range calls {
		switch {
		case c.err == nil:
			answered++
		case c.began.Before(asked):
			t.Errorf("a call that began %v before the stop: %v", asked.Sub(c.began), c.err)
		case !strings.Contains(c.err.Error(), "drain") && !strings.Contains(c.err.Error(), "Unavailable") && !strings.Contains(c.err.Error(), "no server"):
			t.Errorf("a call after the stop: %v", c.err)
		default:
			refused++
		}
	}
	t.Logf("%d calls answered, %d refused by name; stopped in %v", answered, refused, elapsed(asked))
	if got := s.m.show(s.unit, "Result"); got != "success" {
		t.Errorf("got result %q, want success", got)
	}
	if out := s.m.run("journalctl", "--no-pager", "-o", "cat", "-u", s.unit, "-n", "50"); !strings.Contains(out, `"msg":"stopped","in_order":true`) {
		t.Errorf("got no stop in order in the journal:\n%s", tail(out))
	}
}

func stopWhileLoading(t *testing.T, s *service) {
	s.forget()
	s.faulty(t, "tables.chunk=sleep:1500ms")
	s.m.run("systemctl", "start", "--no-block", s.unit)
	t.Cleanup(func() { _, _ = s.m.try("systemctl", "reset-failed", s.unit) })
	within(t, "tables to be loaded", func() bool { return strings.Contains(s.m.show(s.unit, "StatusText"), "loading tables: ") })
	s.m.run("systemctl", "stop", s.unit)
	if got := s.m.show(s.unit, "ActiveState"); got != "inactive" {
		t.Errorf("got %q, want inactive", got)
	}
	if out := s.m.run("ls", "/var/lib/rankd/tables"); strings.TrimSpace(out) != "" {
		t.Errorf("got %q left of the load, want nothing", out)
	}
}

// killedFrontend: as the kernel kills when memory runs out. The memory controller of this kind of container does not let systemd see an
// OOM kill as one, so OOMPolicy=continue itself is only looked at.
func killedFrontend(t *testing.T, s *service) {
	if got := s.m.show(s.unit, "OOMPolicy"); got != "continue" {
		t.Errorf("got OOMPolicy %q, want continue", got)
	}
	s.start(t)
	main := s.m.show(s.unit, "MainPID")
	old := s.pidOf(t, "frontend", 0)
	s.signal("KILL", old)
	within(t, "a successor", func() bool {
		st, err := s.status()
		if err != nil {
			return false
		}
		for _, p := range st.Processes {
			if p.Role == "frontend" && p.Index == 0 && p.PID != old && p.State == "ready" {
				return true
			}
		}
		return false
	})
	if got := s.m.show(s.unit, "MainPID"); got != main || s.m.show(s.unit, "NRestarts") != "0" {
		t.Errorf("got main process %s after %s and %s restarts, want the same service", got, main, s.m.show(s.unit, "NRestarts"))
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
}

func killedMain(t *testing.T, s *service) {
	s.start(t)
	before := s.awaitReady(t)
	s.m.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", s.unit)
	within(t, "a new start", func() bool { return s.m.show(s.unit, "NRestarts") == "1" })
	after := s.awaitReady(t)
	if !after.Tables.Attached || after.Tables.Path != before.Tables.Path {
		t.Errorf("got tables %+v after %+v, want the same ones, attached", after.Tables, before.Tables)
	}
	out := s.m.run("ps", "-u", "rankd", "-o", "pid=,args=")
	if n := len(strings.Split(strings.TrimSpace(out), "\n")); n != 4 {
		t.Errorf("got %d processes, want a supervisor, an owner and two frontends:\n%s", n, out)
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
}

func instances(t *testing.T, s *service) {
	s.start(t)
	blue := *s
	blue.unit, blue.file, blue.listen, blue.http = "rankd@blue.service", "/etc/rankd/blue.yaml", freeAddress(t), freeAddress(t)
	blue.configure("")
	blue.start(t)
	for _, x := range []*service{s, &blue} {
		if err := x.score(t, x.dial(t)); err != nil {
			t.Errorf("%s: %v", x.unit, err)
		}
	}
	red := *s // the port of the first
	red.unit, red.file, red.http = "rankd@red.service", "/etc/rankd/red.yaml", freeAddress(t)
	red.configure("")
	red.m.dropIn(t, red.unit, "[Service]\nRestart=no\n")
	t.Cleanup(func() { _, _ = s.m.try("systemctl", "reset-failed", red.unit) })
	if out, err := s.m.try("systemctl", "start", red.unit); err == nil {
		t.Errorf("a second server of an address: got no error: %s", out)
	}
	want := fmt.Sprintf("process %s serves it already", s.m.show(s.unit, "MainPID"))
	if out := s.m.run("journalctl", "--no-pager", "-o", "cat", "-u", red.unit, "-n", "10"); !strings.Contains(out, want) {
		t.Errorf("got no %q in\n%s", want, tail(out))
	}
	s.m.run("systemctl", "stop", blue.unit)
	if err := s.score(t, s.dial(t)); err != nil {
		t.Errorf("after the other has stopped: %v", err)
	}
}
