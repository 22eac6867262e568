package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/status"
)

func TestFrozenDeviceOwnerFailsNoCall(t *testing.T) {
	s, l, _ := deathLoad(t, 2, options{flags: []string{"--frontends=2", "--buckets=1,4,16"}})
	for range 2 {
		l.progress(s, 200)
		owner := s.owner()
		send(t, owner, unix.SIGSTOP)
		s.awaitFull()
		<-time.After(time.Second) // shorter than the hang timeout and than the calls' patience
		send(t, owner, unix.SIGCONT)
		l.progress(s, 200)
	}
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, noExcuse)
	if m := s.scrape(); m["rankd_owner_restarts_total"] != 0 || m["rankd_frontend_restarts_total"] != 0 {
		t.Errorf("got %v and %v restarts of owner and frontends, want none", m["rankd_owner_restarts_total"], m["rankd_frontend_restarts_total"])
	}
	s.wantAtRest()
}

// The ring is full, nobody empties it, and a frontend that has rows in every slab dies.
func TestFrontendKilledWhileTheRingIsFullFailsOnlyItsOwnCalls(t *testing.T) {
	s, l, rng := deathLoad(t, 2, options{flags: []string{"--frontends=2", "--buckets=1,4,16"}})
	var rounds []round
	for range size(t, "RANKD_E2E_KILLS", 3) {
		l.progress(s, 200)
		victim, owner := s.child("frontend", rng.IntN(2)), s.owner()
		r := round{lanes: map[*lane]bool{}}
		for _, lane := range l.lanes {
			r.lanes[lane] = s.frontendOf(lane) == victim.Index
		}
		send(t, owner, unix.SIGSTOP)
		s.awaitFull()
		r.began = time.Now()
		send(t, victim, unix.SIGKILL)
		s.until(limit, "the killed frontend to be reaped", func() bool { return !alive(victim) }, func() string { return "" })
		send(t, owner, unix.SIGCONT)
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
	if got := s.scrape()["rankd_owner_restarts_total"]; got != 0 {
		t.Errorf("got %v restarts of the device owner, want none", got)
	}
	s.wantAtRest()
}

func TestDeviceOwnerThatStaysFrozenIsReplaced(t *testing.T) {
	s, l, _ := deathLoad(t, 2, options{flags: []string{"--frontends=2", "--device-hang-timeout=1s"}})
	l.progress(s, 200)
	owner := s.owner()
	send(t, owner, unix.SIGSTOP)
	s.awaitWhole(owner)
	l.progress(s, 200)
	l.stop()
	l.wantRight(t)
	l.wantNoFailure(t, func(f failure) bool { return unavailable(f) && reasonOf(f.err) == "device_restarting" })
	if got := s.scrape()["rankd_owner_hang_kills_total"]; got != 1 {
		t.Errorf("got %v kills of a hanging device owner, want 1", got)
	}
	s.wantAtRest()
}

// A frontend stops itself between the reservation of rows and their commit, so the batch that they are in cannot run. It is
// killed when it has held the batch up too long; the calls of the other frontend in that batch only wait.
func TestFrontendFrozenWithAReservationIsKilledAndNoOtherCallFails(t *testing.T) {
	const visits = 150
	seed, b := seedOf(t), testModel(t)
	for name, point := range map[string]string{
		"rows not written":   "frontend.pending",
		"rows not committed": "frontend.entry_committed",
		"not registered":     "frontend.registered",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, options{
				model: b.Dir, tags: []string{"faults"}, env: []string{"RANKD_FAULTS=" + point + "=stop@150"},
				flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--straggler-timeout=300ms", "--batching=linger", "--max-delay=2ms"},
			})
			e := newExam(t, b, seed, 4096, simulated(t, b.Manifest))
			by := s.lanes(2, 2)
			one := func(*rand.Rand) int { return 1 }
			heavy := &load{exam: e, lanes: by[0], callers: 8, seed: seed, rows: one, deadline: 2 * patience, fragile: true}
			other := &load{exam: e, lanes: by[1], rows: one, deadline: patience}
			victim := s.child("frontend", 0)
			heavy.start()
			t.Cleanup(heavy.stop)
			s.until(limit, "load before the freeze", func() bool { return heavy.scored.Load() > visits/3 }, func() string { return "" })
			// Calls over the other frontend, one at a time and too few to freeze it as well, until the victim is gone.
			gone := make(chan struct{})
			go func() { heavy.done.Wait(); close(gone) }()
			for n, rng := 0, random(seed, "other"); n < 2*visits/3; n++ {
				other.once(by[1][n%2], rng)
				select {
				case <-gone:
					n = visits
				case <-time.After(5 * time.Millisecond):
				}
			}
			select {
			case <-gone:
			case <-time.After(limit):
				t.Fatalf("wait for the frozen frontend to be killed: not so after %v", limit)
			}
			s.awaitWhole(victim)
			for _, l := range []*load{heavy, other} {
				l.wantRight(t)
			}
			heavy.wantNoFailure(t, unavailable)
			other.wantNoFailure(t, noExcuse)
			if got := s.scrape()["rankd_frontend_straggler_kills_total"]; got != 1 {
				t.Errorf("got %v kills of frontends that hold a batch up, want 1", got)
			}
			for _, lanes := range by {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if _, err := e.ask(ctx, lanes[0], []int{1, 2, 3}, perTable, 0); err != nil {
					t.Errorf("ask after the kill: %v", err)
				}
				cancel()
			}
			s.wantAtRest()
		})
	}
}

// reasonOf is the reason of a refusal, "" if it has none.
func reasonOf(err error) string {
	reason, _ := refusal(status.Convert(err))
	return reason
}
