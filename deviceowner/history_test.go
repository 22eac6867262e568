package deviceowner

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"rankd/internal/batching"
)

var historySeed = flag.Uint64("history-seed", 0, "run TestI4RandomHistories with this seed only")

// history is a random run of one region: requests, late commits, failures, and deaths of owners and frontends, with every
// turn taken by hand. A row whose value ends in 9 makes the device fail whenever it is in a batch.
type history struct {
	*rig
	rng          *rand.Rand
	owner        uint32
	incarnations []uint32
	next         uint32
	held         [][]*call      // a frontend: reserved and not committed
	waiting      [][]*call      // a frontend: committed
	crashes      map[uint32]int // first value of a reservation: owners that died while it ran alone
}

// TestI4RandomHistories checks that every request of a live frontend ends, with its own scores, unless it makes the
// device fail alone, or owners died of it maxTries times.
func TestI4RandomHistories(t *testing.T) {
	if *historySeed != 0 {
		runHistory(t, *historySeed)
		return
	}
	base := uint64(time.Now().UnixNano())
	for i := range uint64(300) {
		if runHistory(t, base+i); t.Failed() {
			t.Fatalf("repeat with -history-seed=%d", base+i)
		}
	}
}

func runHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	kinds := batching.All()
	s := setup{
		batching: string(kinds[rng.IntN(len(kinds))]), maxDelay: time.Duration(rng.IntN(3)) * time.Millisecond,
		depth: 1 + rng.IntN(3), frontends: 1 + rng.IntN(3),
	}
	h := &history{rig: newRig(t, s), rng: rng, owner: 1, next: 10, crashes: map[uint32]int{}}
	h.exec.verdict = hasNine
	for range s.frontends {
		h.incarnations = append(h.incarnations, 1)
	}
	h.held, h.waiting = make([][]*call, s.frontends), make([][]*call, s.frontends)
	for range 30 + rng.IntN(200) {
		h.step()
	}
	h.finish()
}

func hasNine(rows []uint32) error {
	for _, v := range rows {
		if v%10 == 9 {
			return errDevice
		}
	}
	return nil
}

func (h *history) step() {
	f := h.rng.IntN(len(h.fronts))
	switch n := h.rng.IntN(100); {
	case n < 35:
		h.reserve(f)
	case n < 55:
		h.commit(f)
	case n < 75:
		h.loop.turn()
	case n < 88:
		h.end()
	case n < 92:
		h.deliver()
	case n < 96:
		h.clock.advance(time.Duration(h.rng.IntN(3000)) * time.Microsecond)
	case n < 98:
		h.killOwner()
	default:
		h.killFrontend(f)
	}
}

// reserve takes rows for a request that fits one reservation; one in ten makes the device fail.
func (h *history) reserve(f int) {
	if len(h.held[f]) == 2 { // of 3 writer tokens
		return
	}
	n := 1 + h.rng.IntN(4)
	c := newCall(h.t, h.next, n)
	h.next += 10
	if h.rng.IntN(10) == 0 {
		c.first += 9
	}
	v, ok := h.fronts[f].Reserve(n, h.cfg.Batching == "off", c, 0)
	if !ok {
		h.fronts[f].AnnounceSpace()
		return
	}
	c.res, c.rows = v, v.N // a slab may have had room for some only
	writeRows(&c.res, c.first)
	h.held[f] = append(h.held[f], c)
}

func (h *history) commit(f int) {
	if n := len(h.held[f]); n > 0 {
		i := h.rng.IntN(n)
		c := h.held[f][i]
		h.held[f] = append(h.held[f][:i], h.held[f][i+1:]...)
		h.fronts[f].Commit(&c.res)
		h.waiting[f] = append(h.waiting[f], c)
	}
}

// end ends a launch; a whole one may fail for no reason.
func (h *history) end() {
	n := len(h.exec.flying)
	if n == 0 {
		return
	}
	f := h.exec.flight(h.rng.IntN(n))
	if h.rng.IntN(8) == 0 && !h.place(f).alone {
		f.endWith(errDevice)
		return
	}
	f.end()
}

func (h *history) place(f *flight) *launch {
	for i := range h.loop.places {
		if p := &h.loop.places[i]; f.batch == &p.batch {
			return p
		}
	}
	h.t.Fatal("a launch has no place")
	return nil
}

// killOwner abandons the loop where it stands. Scores that the device had finished and the loop not published are lost.
func (h *history) killOwner() {
	for i := range h.loop.places {
		if p := &h.loop.places[i]; !p.began.IsZero() && p.alone {
			h.crashes[rowsOf(&p.batch)[0]]++
		}
	}
	h.owner++
	h.succeed(h.owner)
}

// killFrontend ends a frontend with all its requests and starts its next incarnation as soon as that may be.
func (h *history) killFrontend(f int) {
	h.super.MarkDead(f, h.incarnations[f])
	h.held[f], h.waiting[f] = nil, nil
	for i := 0; !h.super.Recovered(f); i++ {
		if i == 2 {
			h.t.Fatalf("frontend %d is not recovered after two turns", f)
		}
		h.loop.turn()
	}
	h.incarnations[f]++
	var err error
	if h.fronts[f], err = h.region.Frontend(f, h.incarnations[f]); err != nil {
		h.t.Fatal(err)
	}
}

// finish lets everything come to rest and looks at every request of the live.
func (h *history) finish() {
	for f := range h.fronts {
		for len(h.held[f]) > 0 {
			h.commit(f)
		}
	}
	for range 200 {
		h.settle()
		for len(h.exec.flying) > 0 {
			h.exec.flight(0).end()
			h.settle()
		}
		h.deliver()
		h.clock.advance(time.Millisecond)
	}
	for f := range h.fronts {
		for _, c := range h.waiting[f] {
			h.verify(c)
		}
	}
	h.wantAtRest()
	if h.exec.most > h.loop.depth {
		h.t.Errorf("I1: %d launches in flight at depth %d", h.exec.most, h.loop.depth)
	}
}

func (h *history) verify(c *call) {
	h.t.Helper()
	switch poisoned := hasNine(valuesOf(c)) != nil; {
	case c.answered != c.rows:
		h.t.Errorf("call %d: %d of %d rows answered", c.first, c.answered, c.rows)
	case poisoned && c.refused == 0:
		h.t.Errorf("call %d: scores, although the device failed", c.first)
	case !poisoned && c.refused != 0 && h.crashes[c.first] < maxTries:
		h.t.Errorf("call %d: refused, although only %d owners died while it ran alone", c.first, h.crashes[c.first])
	}
}

func valuesOf(c *call) []uint32 {
	var v []uint32
	for i := range c.rows {
		v = append(v, c.first+uint32(i))
	}
	return v
}
