package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A thousand calls in forty rounds with a scrape after each, and a frontend killed between two of them.
func TestTotalsAreRightInEveryScrapeAndNothingDecreases(t *testing.T) {
	const frontends, rounds, each = 4, 40, 25
	seed, b := seedOf(t), testModel(t)
	s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=4"}})
	e := newExam(t, b, seed, 1024, simulated(t, b.Manifest))
	rng := random(seed, "calls")
	lanes := flat(s.lanes(frontends, 2))
	first := s.scrape()
	if first.ok() != 0 {
		t.Errorf("got %v requests counted before the first one, want 0", first.ok())
	}
	last, rows := first, 0
	check := func(when string, calls int) {
		t.Helper()
		m := s.scrape()
		if got := m.ok() - first.ok(); got != float64(calls) {
			t.Errorf("%s: got a total of %v, want %d", when, got, calls)
		}
		if got := m.sum("rankd_frontend_requests_total") - first.sum("rankd_frontend_requests_total"); got != float64(calls) {
			t.Errorf("%s: got a total of %v over the frontends, want %d", when, got, calls)
		}
		if got := m.sum("rankd_rows_total") - first.sum("rankd_rows_total"); got != float64(rows) {
			t.Errorf("%s: got %v rows, want %d", when, got, rows)
		}
		if falls := last.falls(m); len(falls) > 0 {
			t.Errorf("%s: counters %q are lower than before or gone", when, falls)
		}
		if len(m) != len(last) && when != "round 0" {
			t.Errorf("%s: got %d series, %d before", when, len(m), len(last))
		}
		last = m
	}
	for round := range rounds {
		var calls sync.WaitGroup
		for n := range each {
			picks, kind := e.pick(rng, 1+rng.IntN(20)), rng.IntN(2)
			rows += len(picks)
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				if _, err := e.ask(ctx, lanes[(round*each+n)%len(lanes)], picks, packedInt64, kind); err != nil {
					t.Errorf("call %d of round %d: %v", n, round, err)
				}
			})
		}
		calls.Wait()
		check(fmt.Sprintf("round %d", round), (round+1)*each)
		if round != rounds/2 {
			continue
		}
		victim := s.child("frontend", rng.IntN(frontends))
		send(t, victim, unix.SIGKILL)
		check("just after the kill", (round+1)*each)
		s.awaitWhole(victim)
		check("after the restart", (round+1)*each)
		for _, l := range lanes {
			l.connect(t)
		}
	}
	if got := last["rankd_frontend_restarts_total"]; got != 1 {
		t.Errorf("got %v restarts of frontends, want 1", got)
	}
	s.wantAtRest()
}
