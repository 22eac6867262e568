package shmring

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// The tests of this file run two or three steps of the protocol against each other on real threads, many times, and compare
// what was seen with the outcomes that are allowed, each with its reason. An outcome that nobody has given a reason for is
// a failure.

// outcomes are the allowed results of a race.
type outcomes map[string]string

// race runs its actors at once, rounds times over, and checks what result says after each round.
func race(t *testing.T, allowed outcomes, rounds int, prepare func(), result func() string, actors ...func()) {
	t.Helper()
	if testing.Short() || raceDetector {
		rounds /= 10
	}
	seen := map[string]int{}
	var start, finished sync.WaitGroup
	var gate atomic.Int64 // the round that may begin
	var quit atomic.Bool
	arrived := make(chan struct{}, len(actors))
	finished.Add(len(actors))
	start.Add(len(actors))
	for k, act := range actors {
		go func() {
			defer finished.Done()
			start.Done()
			for round := int64(1); round <= int64(rounds); round++ {
				for spins := 0; gate.Load() < round; spins++ {
					if spins > 100 {
						runtime.Gosched()
					}
				}
				if quit.Load() {
					return
				}
				// A few hundred steps of delay, different in each round, make the actors meet in all orders.
				for n := mixed(round, k) % 600; n > 0; n-- {
					gate.Load()
				}
				act()
				arrived <- struct{}{}
			}
		}()
	}
	start.Wait()
	for round := int64(1); round <= int64(rounds) && !quit.Load(); round++ {
		prepare()
		gate.Store(round)
		for range actors {
			<-arrived
		}
		what := result()
		if seen[what]++; allowed[what] == "" {
			t.Errorf("round %d: %s is not among the allowed outcomes", round, what)
			quit.Store(true)
			gate.Store(round + 1)
		}
	}
	finished.Wait()
	for what, reason := range allowed {
		t.Logf("%7d × %-36s %s", seen[what], what, reason)
	}
}

const outcomeRounds = 5000

// mixed is a number that depends on both arguments in no simple way.
func mixed(round int64, actor int) uint64 {
	z := (uint64(round)*64 + uint64(actor)) * 0x9e3779b97f4a7c15
	return (z ^ z>>29) * 0xbf58476d1ce4e5b9 >> 33
}

func TestOutcomesOfBellAndPark(t *testing.T) {
	v := newTrio(t, smallGeometry())
	var b box
	var r Reservation
	var slab int
	var what string
	race(t, outcomes{
		"found by the recheck": "R1 before P2: the owner saw the rows after its announcement and did not wait",
		"woken":                "P2 before R1, so P1 before R2: the frontend saw the announcement",
	}, outcomeRounds, func() {
		slab, _ = v.o.Open()
		r = mustReserve(t, v.f[0], 1, &b, 0)
		v.o.Close(slab)
	}, func() string {
		v.o.Complete(slab, StatusOK)
		v.f[0].Poll()
		v.o.Recycle()
		b.got = nil
		return what
	}, func() {
		what = "woken"
		for again := true; again; again = !v.o.Ready(slab) { // a wait may also end for no reason
			if v.o.Park(false, MaxPark, func() bool {
				if v.o.Ready(slab) {
					what = "found by the recheck"
					return true
				}
				return false
			}) && v.o.Ready(slab) { // not ready: the frontend has not had a processor for so long, and nobody was to be woken
				what = "slept until the bound"
			}
		}
	}, func() {
		v.f[0].Commit(&r)
	})
}

func TestOutcomesOfReserveAndClose(t *testing.T) {
	v := newTrio(t, smallGeometry())
	var b [2]box
	var r [2]Reservation
	var ok [2]bool
	var slab, rows int
	race(t, outcomes{
		"granted 0, closed with 0": "the close came first",
		"granted 1, closed with 1": "one CAS came before the close's, the other found the closed bit",
		"granted 2, closed with 2": "both came before the close, in either order, with rows of their own",
	}, outcomeRounds, func() {
		slab, _ = v.o.Open()
	}, func() string {
		granted := 0
		for i := range r {
			if ok[i] {
				granted++
				v.f[i].Commit(&r[i])
			}
		}
		what := fmt.Sprintf("granted %d, closed with %d", granted, rows)
		if granted == 2 && r[0].start == r[1].start {
			what += " on the same rows"
		}
		v.o.Complete(slab, StatusOK)
		for i := range r {
			v.f[i].Poll()
			b[i].got = nil
		}
		v.o.Recycle()
		return what
	}, func() {
		r[0], ok[0] = v.f[0].Reserve(1, false, &b[0], 0)
	}, func() {
		r[1], ok[1] = v.f[1].Reserve(1, false, &b[1], 0)
	}, func() {
		rows = v.o.Close(slab)
	})
}

func TestOutcomesOfCommitAndReady(t *testing.T) {
	v := newTrio(t, smallGeometry())
	var b [2]box
	var r [2]Reservation
	var slab int
	var value uint32
	var ready bool
	var read [2]uint32
	race(t, outcomes{
		"not ready":            "at least one of the two counts was still to come",
		"ready with both rows": "both counts were seen, so both rows were: each was written before its count",
	}, outcomeRounds, func() {
		value++
		slab, _ = v.o.Open()
		for i := range r {
			r[i] = mustReserve(t, v.f[i], 1, &b[i], 0)
		}
		v.o.Close(slab)
		read = [2]uint32{}
	}, func() string {
		what := "not ready"
		switch {
		case ready && read == [2]uint32{value, value}:
			what = "ready with both rows"
		case ready:
			what = fmt.Sprintf("ready with rows %v, want %d", read, value)
		}
		if !v.o.Ready(slab) {
			what = "not ready after both have committed"
		}
		v.o.Complete(slab, StatusOK)
		for i := range r {
			v.f[i].Poll()
			b[i].got = nil
		}
		v.o.Recycle()
		return what
	}, func() {
		write(&r[0], value)
		v.f[0].Commit(&r[0])
	}, func() {
		write(&r[1], value)
		v.f[1].Commit(&r[1])
	}, func() {
		ready = false
		for range looks {
			if ready = v.o.Ready(slab); ready {
				break
			}
		}
		if ready {
			rows := v.o.Array(slab, 0, 0, 2)
			read = [2]uint32{binary.LittleEndian.Uint32(rows), binary.LittleEndian.Uint32(rows[64:])}
		}
	})
}

// looks is how often an actor looks for what another is about to do.
const looks = 1000

func poll(f *Frontend) int {
	for range looks {
		if n := f.Poll(); n > 0 {
			return n
		}
	}
	return 0
}

func TestOutcomesOfDoneAckAndRecycle(t *testing.T) {
	v := newTrio(t, smallGeometry())
	var b [2]box
	var slab int
	var value uint32
	var freed int
	var polled [2]int
	race(t, outcomes{
		"kept, read by 0":  "neither looked after done was stored",
		"kept, read by 1":  "one did not look after done was stored",
		"kept, read by 2":  "an ack came after the last look at pending",
		"freed, read by 2": "both acks came before, and each ack after its reading",
	}, outcomeRounds, func() {
		value += 10
		slab, _ = v.o.Open()
		for i := range v.f {
			r := mustReserve(t, v.f[i], 1, &b[i], i)
			write(&r, value+uint32(i))
			v.f[i].Commit(&r)
		}
		v.o.Close(slab)
		score(v.o, slab)
	}, func() string {
		what := fmt.Sprintf("kept, read by %d", polled[0]+polled[1])
		if freed == 1 {
			what = fmt.Sprintf("freed, read by %d", polled[0]+polled[1])
		}
		for i := range v.f {
			v.f[i].Poll()
			if len(b[i].got) != 1 || len(b[i].got[0].scores) != 1 || b[i].got[0].scores[0] != value+uint32(i)+1000 {
				what += fmt.Sprintf(", frontend %d got %+v", i, b[i].got)
			}
			b[i].got = nil
		}
		v.o.Recycle()
		return what
	}, func() {
		polled[0] = poll(v.f[0])
	}, func() {
		polled[1] = poll(v.f[1])
	}, func() {
		v.o.Complete(slab, StatusOK)
		freed = 0
		for range looks {
			if freed = v.o.Recycle(); freed == 1 {
				clear(v.o.Scores(slab, 0, 2)) // what the next life does to them
				break
			}
		}
	})
}
