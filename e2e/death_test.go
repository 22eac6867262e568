package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the deadline of calls that must survive deaths.
const patience = 5 * time.Second

// deathLoad is a server of the test model on the simulated accelerator, with load on every frontend.
func deathLoad(t *testing.T, frontends int, o options) (*server, *load, *rand.Rand) {
	t.Helper()
	seed, b := seedOf(t), testModel(t)
	o.model = b.Dir
	o.flags = append([]string{"--executor=sim", "--sim-verify=full"}, o.flags...)
	s := serve(t, o)
	l := &load{
		exam: newExam(t, b, seed, 4096, simulated(t, b.Manifest)), callers: 12 * frontends, seed: seed,
		rows: smallRows, deadline: patience, lanes: flat(s.lanes(frontends, 3)),
	}
	t.Cleanup(l.stop)
	return s, l.start(), random(seed, "deaths")
}

// round is the time around a death in which calls on some lanes may fail.
type round struct {
	lanes        map[*lane]bool
	began, ended time.Time
}

func (r round) excuses(f failure) bool {
	return r.lanes[f.lane] && !f.ended.Before(r.began) && !f.began.After(r.ended) && unavailable(f)
}

func TestKilledFrontendFailsOnlyItsOwnCalls(t *testing.T) {
	const frontends = 3
	s, l, rng := deathLoad(t, frontends, options{flags: []string{"--frontends=3"}})
	var rounds []round
	kills := size(t, "RANKD_E2E_KILLS", 3)
	for range kills {
		l.progress(s, 200)
		victim := s.child("frontend", rng.IntN(frontends))
		r := round{lanes: map[*lane]bool{}}
		for _, lane := range l.lanes {
			r.lanes[lane] = s.frontendOf(lane) == victim.Index
		}
		r.began = time.Now()
		send(t, victim, unix.SIGKILL)
		s.awaitWhole(victim)
		for _, lane := range l.lanes {
			lane.connect(t)
		}
		r.ended = time.Now()
		rounds = append(rounds, r)
	}
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, func(f failure) bool {
		return slices.ContainsFunc(rounds, func(r round) bool { return r.excuses(f) })
	})
	if got := s.scrape()["rankd_frontend_restarts_total"]; got != float64(kills) {
		t.Errorf("got %v restarts of frontends, want %d", got, kills)
	}
	s.wantAtRest()
}

func TestKilledDeviceOwnerFailsNoCall(t *testing.T) {
	s, l, _ := deathLoad(t, 2, options{flags: []string{"--frontends=2"}})
	kills := size(t, "RANKD_E2E_KILLS", 3)
	for range kills {
		l.progress(s, 200)
		victim := s.owner()
		send(t, victim, unix.SIGKILL)
		s.awaitWhole(victim)
	}
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, noExcuse)
	m := s.scrape()
	if got := m["rankd_owner_restarts_total"]; got != float64(kills) {
		t.Errorf("got %v restarts of the device owner, want %d", got, kills)
	}
	if got := m["rankd_frontend_restarts_total"]; got != 0 {
		t.Errorf("got %v restarts of frontends, want none", got)
	}
	s.wantAtRest()
}

func TestKilledSupervisorTakesAllAlongAndTheNextOneServes(t *testing.T) {
	s, l, _ := deathLoad(t, 2, options{flags: []string{"--frontends=2"}})
	for range size(t, "RANKD_E2E_KILLS", 3) {
		l.progress(s, 200)
		send(t, s.self(), unix.SIGKILL)
		s.awaitEnd(limit)
		s.until(5*time.Second, "the children of a killed supervisor to end", func() bool { return len(processesOf(s.instance)) == 0 },
			func() string { return s.logTail(5) })
		s.start()
		s.awaitReady()
	}
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, unavailable)
	s.wantAtRest()
}

func TestEverythingKilledAtRandomGivesNoWrongScore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds; run without -short")
	}
	s, l, rng := deathLoad(t, 3, options{flags: []string{"--frontends=3", "--batching=linger"}})
	for range 4 * size(t, "RANKD_E2E_KILLS", 3) {
		l.progress(s, int64(rng.IntN(100)))
		children := s.state().Children
		if len(children) == 0 {
			continue
		}
		send(t, children[rng.IntN(len(children))], unix.SIGKILL) // also one that has not come up yet
	}
	s.awaitWhole()
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, unavailable)
	s.wantAtRest()
}
