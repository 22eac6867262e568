package shmring

import (
	"math/rand/v2"
	"testing"
)

func TestWordsReadBackWhatWasPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		e := epoch(rng.Uint64() & epochMask)
		rows, closed, committed := rng.IntN(MaxCapacity+1), rng.IntN(2) == 1, rng.IntN(2) == 1
		f := rng.IntN(MaxFrontends)
		if s := packState(e, closed, rows); s.epoch() != e || s.closed() != closed || s.reserved() != rows {
			t.Fatalf("state %d %v %d reads %s", e, closed, rows, s)
		}
		if c := packCount(e, rows); c.epoch() != e || c.count() != rows {
			t.Fatalf("count %d %d reads %d %d", e, rows, c.epoch(), c.count())
		}
		if w := packEntry(e, f, committed, rows); w.epoch() != e || w.frontend() != f || w.committed() != committed || w.rows() != rows {
			t.Fatalf("entry %d %d %v %d reads %#x", e, f, committed, rows, w)
		}
		row, tries := rng.IntN(MaxCapacity), rng.IntN(128)
		if c := packCursor(e, row, tries); c.epoch() != e || c.row() != row || c.tries() != tries {
			t.Fatalf("cursor %d %d %d reads %#x", e, row, tries, c)
		}
		if c := packClaim(uint32(rows), uint32(row)); c.incarnation() != uint32(rows) || c.pid() != uint32(row) {
			t.Fatalf("claim %d %d reads %#x", rows, row, c)
		}
	}
}

func TestEpochsWrapWithinAFewLivesAndSkipZero(t *testing.T) {
	e, wrapped := epoch(firstEpoch), false
	for range 8 {
		n := e.next()
		if n == 0 {
			t.Fatalf("epoch after %d is 0, which is what words say that were never written", e)
		}
		wrapped = wrapped || n < e
		e = n
	}
	if !wrapped {
		t.Fatalf("epoch %d after 8 lives: the wrap is not exercised", e)
	}
}
