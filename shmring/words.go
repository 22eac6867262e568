package shmring

import "fmt"

// The packed words of a slab. Every one carries the slab's epoch, so that a word left over from an earlier life of the
// slab reads as "not yet". Epochs are compared for equality only and may wrap.
const (
	epochBits = 40
	epochMask = 1<<epochBits - 1

	// firstEpoch starts a few laps before the wrap, in production too, so that the wrap is no rare event.
	firstEpoch = epochMask - 2

	rowBits = 23
	rowMask = 1<<rowBits - 1
)

// epoch numbers the lives of one slab: 40 bits, free-running. No life is number 0, since that is what words say that were
// never written: the result of a reservation, say.
type epoch uint64

func (e epoch) next() epoch { return max((e+1)&epochMask, 1) }

// stateWord is epoch:40 | closed:1 | reserved:23, the word on which frontends reserve by CAS.
type stateWord uint64

func packState(e epoch, closed bool, reserved int) stateWord {
	s := stateWord(e)<<(rowBits+1) | stateWord(reserved)
	if closed {
		s |= 1 << rowBits
	}
	return s
}

func (s stateWord) epoch() epoch  { return epoch(s >> (rowBits + 1)) }
func (s stateWord) closed() bool  { return s>>rowBits&1 == 1 }
func (s stateWord) reserved() int { return int(s & rowMask) }

func (s stateWord) String() string {
	verb := "open"
	if s.closed() {
		verb = "closed"
	}
	return fmt.Sprintf("epoch %d %s reserved %d", s.epoch(), verb, s.reserved())
}

// countWord is epoch:40 | count:24: committed rows, execution attempts.
type countWord uint64

func packCount(e epoch, n int) countWord { return countWord(e)<<24 | countWord(n) }
func (c countWord) epoch() epoch         { return epoch(c >> 24) }
func (c countWord) count() int           { return int(c & (1<<24 - 1)) }

// entryWord is one reservation, kept at the index of its first row: epoch:40 | frontend:6 | committed:1 | rows:17.
type entryWord uint64

func packEntry(e epoch, frontend int, committed bool, rows int) entryWord {
	w := entryWord(e)<<24 | entryWord(frontend)<<18 | entryWord(rows)
	if committed {
		w |= 1 << 17
	}
	return w
}

func (w entryWord) epoch() epoch    { return epoch(w >> 24) }
func (w entryWord) frontend() int   { return int(w >> 18 & 63) }
func (w entryWord) committed() bool { return w>>17&1 == 1 }
func (w entryWord) rows() int       { return int(w & (1<<17 - 1)) }

// cursorWord marks the reservation that is being executed alone after a crash: epoch:40 | tries:7 | row:17.
type cursorWord uint64

func packCursor(e epoch, row, tries int) cursorWord {
	return cursorWord(e)<<24 | cursorWord(min(tries, 127))<<17 | cursorWord(row)
}

func (c cursorWord) epoch() epoch { return epoch(c >> 24) }
func (c cursorWord) tries() int   { return int(c >> 17 & 127) }
func (c cursorWord) row() int     { return int(c & (1<<17 - 1)) }

// claimWord says who holds a role: incarnation:32 | pid:32. Zero: nobody ever did.
type claimWord uint64

func packClaim(incarnation, pid uint32) claimWord {
	return claimWord(incarnation)<<32 | claimWord(pid)
}
func (c claimWord) incarnation() uint32 { return uint32(c >> 32) }
func (c claimWord) pid() uint32         { return uint32(c) }
