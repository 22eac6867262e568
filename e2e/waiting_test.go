package e2e

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/supervisor"
)

// cpu is the processor time that the processes of a server have used, in seconds.
func (s *server) cpu() float64 {
	s.t.Helper()
	ticks := 0
	for _, c := range append([]supervisor.Child{s.self()}, s.state().Children...) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID))
		if err != nil {
			s.t.Fatal(err)
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
		for _, word := range f[11:13] {                                      // in user mode, in the kernel
			n, err := strconv.Atoi(word)
			if err != nil {
				s.t.Fatal(err)
			}
			ticks += n
		}
	}
	return float64(ticks) / 100 // the kernel's unit for user space, whatever its own is
}

func TestWaitingCostsNoCPU(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute; run without -short")
	}
	const watched = 10 * time.Second
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	measure := func(s *server, what string, most float64) {
		t.Helper()
		before, began := s.cpu(), time.Now()
		<-time.After(watched)
		part := (s.cpu() - before) / time.Since(began).Seconds()
		t.Logf("%s: %.2f %% of a processor", what, 100*part)
		if part > most {
			t.Errorf("%s: got %.2f %% of a processor, want at most %.0f %%", what, 100*part, 100*most)
		}
	}
	t.Run("for requests", func(t *testing.T) {
		s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2"}})
		l := &load{exam: e, lanes: flat(s.lanes(2, 2)), callers: 8, seed: seed, rows: smallRows, deadline: patience, total: 200}
		l.start().done.Wait()
		measure(s, "idle, with open connections", 0.02) // 0.6 % on a quiet machine; polling once a millisecond would take several
		l.wantRight(t)
	})
	t.Run("for a stopped device owner, with full slabs", func(t *testing.T) {
		s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,4,16"}})
		l := &load{exam: e, lanes: flat(s.lanes(2, 2)), callers: 32, seed: seed, rows: smallRows, deadline: 4 * patience}
		l.start()
		t.Cleanup(l.stop)
		l.progress(s, 50)
		owner := s.owner()
		send(t, owner, unix.SIGSTOP)
		s.awaitFull()
		measure(s, "32 calls waiting for room or scores", 0.08) // half of it on a quiet machine: their deadlines are looked at two hundred times a second
		l.stopped.Store(true)
		send(t, owner, unix.SIGCONT)
		l.stop()
		l.wantRight(t)
		l.wantNoFailure(t, noExcuse)
		s.wantAtRest()
	})
}

// Lone requests, each when the server has gone to sleep, is about to, or has just woken: no wake-up may be lost.
func TestNoWakeUpIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds; run without -short")
	}
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--sim-call=20us"}})
	l := &load{
		exam: e, lanes: flat(s.lanes(2, 1)), callers: 1, seed: seed, deadline: patience, total: int64(size(t, "RANKD_E2E_LONE", 5000)),
		rows: func(rng *rand.Rand) int {
			// Gaps from a microsecond to some milliseconds, short ones by far the most.
			gap := time.Duration(math.Exp(rng.Float64()*8.5)) * time.Microsecond
			if began := time.Now(); gap < time.Millisecond {
				for time.Since(began) < gap {
				}
			} else {
				<-time.After(gap)
			}
			return 1
		},
	}
	began := time.Now()
	l.start().done.Wait()
	l.wantRight(t)
	l.wantNoFailure(t, noExcuse)
	m := s.scrape()
	t.Logf("%d lone requests in %v; the device owner was woken %v times by the bell and %v by the timer, frontends %v and %v times", l.scored.Load(),
		time.Since(began).Round(time.Second), m["rankd_owner_wakes_bell_total"], m["rankd_owner_wakes_timer_total"],
		m["rankd_frontend_wakes_bell_total"], m["rankd_frontend_wakes_timer_total"])
	if m["rankd_owner_wakes_bell_total"] == 0 || m["rankd_frontend_wakes_bell_total"] == 0 {
		t.Error("got no wake-up by a bell, want many")
	}
	for _, name := range []string{"rankd_owner_wakes_timer_with_work_total", "rankd_frontend_wakes_timer_with_work_total"} {
		if v, there := m[name]; v != 0 || !there {
			t.Errorf("got %s %v (%v), want 0: a wake-up was lost", name, v, there)
		}
	}
	s.wantAtRest()
}
