package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/model"
)

// killed is a server under load in which processes are killed again and again, and what it held before.
type killed struct {
	*aimed
	load  *load
	rng   *rand.Rand
	start traces
}

func newKilled(t *testing.T, b *model.Bundle, seed uint64, score scoring, frontends int, flags ...string) *killed {
	t.Helper()
	k := &killed{aimed: serveAimed(t, options{model: b.Dir, flags: flags}), rng: random(seed, "kills")}
	var err error
	if k.start, err = k.traces(); err != nil {
		t.Fatal(err)
	}
	k.load = &load{
		exam: newExam(t, b, seed, 4096, score), callers: 8 * frontends, seed: seed, rows: smallRows, deadline: patience,
		lanes: flat(k.lanes(frontends, 3)),
	}
	k.load.start()
	t.Cleanup(k.load.stop)
	return k
}

// settle ends the load, and wants right scores, no failure but the excused ones, and the traces of the start.
func (k *killed) settle(t *testing.T, excused func(failure) bool) {
	t.Helper()
	k.load.progress(k.server, 100)
	k.load.stop()
	k.load.wantRight(t)
	k.load.wantNoFailure(t, excused)
	k.wantSound()
	k.wantAtRest()
	for _, lane := range k.load.lanes {
		lane.conn.Close()
	}
	k.wantTraces(k.start)
}

func TestManyKilledFrontendsLeaveNothingBehind(t *testing.T) {
	const frontends = 3
	seed, b := seedOf(t), testModel(t)
	k := newKilled(t, b, seed, simulated(t, b.Manifest), frontends, "--executor=sim", "--sim-verify=full", "--frontends=3")
	var rounds []round
	kills := 3 * size(t, "RANKD_E2E_KILLS", 3)
	for range kills {
		k.load.progress(k.server, int64(1+k.rng.IntN(100)))
		homes := map[*lane]int{}
		for _, lane := range k.load.lanes {
			homes[lane] = k.frontendOf(lane)
		}
		// One that has connections: they go wherever the kernel puts them when their frontend dies.
		victim := k.child("frontend", homes[k.load.lanes[k.rng.IntN(len(k.load.lanes))]])
		r := round{lanes: map[*lane]bool{}, began: time.Now()}
		for lane, home := range homes {
			r.lanes[lane] = home == victim.Index
		}
		send(t, victim, unix.SIGKILL)
		k.awaitWhole(victim)
		for _, lane := range k.load.lanes {
			lane.connect(t)
		}
		r.ended = time.Now()
		rounds = append(rounds, r)
	}
	k.settle(t, func(f failure) bool {
		return slices.ContainsFunc(rounds, func(r round) bool { return r.excuses(f) })
	})
	m := k.scrape()
	if got := m["rankd_frontend_restarts_total"]; got != float64(kills) || m["rankd_owner_restarts_total"] != 0 {
		t.Errorf("got %v restarts of frontends and %v of the device owner, want %d and 0", got, m["rankd_owner_restarts_total"], kills)
	}
}

func TestManyKilledDeviceOwnersFailNoCallAndLeaveNothingBehind(t *testing.T) {
	kills := size(t, "RANKD_E2E_KILLS", 3)
	again := func(t *testing.T, k *killed) {
		t.Helper()
		var longest time.Duration
		for range kills {
			k.load.progress(k.server, int64(1+k.rng.IntN(100)))
			victim, began := k.owner(), time.Now()
			send(t, victim, unix.SIGKILL)
			k.awaitWhole(victim)
			longest = max(longest, time.Since(began))
		}
		t.Logf("%d device owners killed, the longest time until the next one was ready is %v", kills, longest.Round(time.Millisecond))
		k.settle(t, noExcuse)
		m := k.scrape()
		if got := m["rankd_owner_restarts_total"]; got != float64(kills) || m["rankd_frontend_restarts_total"] != 0 {
			t.Errorf("got %v restarts of the device owner and %v of frontends, want %d and 0", got, m["rankd_frontend_restarts_total"], kills)
		}
	}
	t.Run("simulated accelerator", func(t *testing.T) {
		seed, b := seedOf(t), testModel(t)
		again(t, newKilled(t, b, seed, simulated(t, b.Manifest), 2, "--executor=sim", "--sim-verify=full", "--frontends=2"))
	})
	t.Run("CPU plugin with kept programs", func(t *testing.T) {
		plugin := pjrttest.CPU(t)
		seed, b := seedOf(t), testModel(t)
		flags := []string{
			"--executor=pjrt", "--platform=cpu", "--plugin=" + plugin, "--device-threads=1", "--frontends=2", "--buckets=1,16,64",
			"--executable-cache=" + t.TempDir(),
		}
		s := serve(t, options{model: b.Dir, flags: flags, tags: []string{"faults"}}) // compiles and keeps the programs
		s.stop()
		k := newKilled(t, b, seed, closedForm, 2, flags...)
		again(t, k)
		if got := k.scrape()["rankd_compiles_before_ready_total"]; got != 0 {
			t.Errorf("got %v programs compiled, want none: they are kept", got)
		}
	})
}
