//go:build ringsim

package shmring

import (
	"math/bits"
	"os"
	"strings"
	"testing"
	"time"
)

// traces enumerates all schedules of a run without faults, up to the order of operations that don't touch the same thing
// or only read it: swapping two such neighbours changes nothing, so one schedule of each class is enough. Sleep sets
// (Godefroid, Partial-Order Methods for the Verification of Concurrent Systems, 1996) leave out the others: an actor whose
// operation was tried here sleeps until somebody does what that operation depends on.
type traces struct {
	nodes []traceNode // the choices of the current schedule
	depth int
	armed func() bool // the beginning is over, which is not varied
}

const traceActors = 8

// traceNode is one choice. Actors are bits.
type traceNode struct {
	enabled, sleep, tried uint64
	chosen                int
	ops                   [traceActors]operation
}

func (x *traces) spawned(*actor) {}

func (x *traces) due(*simulator, *actor) bool { return true }

func (x *traces) pick(s *simulator, _ *actor, ready []*actor) *actor {
	s.quiet = 0
	if !x.armed() {
		return ready[0]
	}
	x.depth++
	if x.depth <= len(x.nodes) {
		return s.actors[x.nodes[x.depth-1].chosen]
	}
	n := traceNode{}
	for _, a := range ready {
		n.enabled |= 1 << a.id
		n.ops[a.id] = a.op
	}
	if len(x.nodes) > 0 {
		before := &x.nodes[len(x.nodes)-1]
		for m := (before.sleep | before.tried) &^ (1 << before.chosen); m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); independent(before.ops[i], before.ops[before.chosen]) {
				n.sleep |= 1 << i
			}
		}
	}
	awake := n.enabled &^ n.sleep
	if awake == 0 {
		return nil // all that could follow was seen in another order
	}
	n.chosen = bits.TrailingZeros64(awake)
	x.nodes = append(x.nodes, n)
	return s.actors[n.chosen]
}

func independent(a, b operation) bool {
	return a.what == nil || b.what == nil || a.what != b.what || !a.write && !b.write
}

// next prepares the following schedule; false: there is none.
func (x *traces) next() bool {
	x.depth = 0
	for len(x.nodes) > 0 {
		n := &x.nodes[len(x.nodes)-1]
		n.tried |= 1 << n.chosen
		if rest := n.enabled &^ n.sleep &^ n.tried; rest != 0 {
			n.chosen = bits.TrailingZeros64(rest)
			return true
		}
		x.nodes = x.nodes[:len(x.nodes)-1]
	}
	return false
}

// TestAllInterleavings runs every schedule of one frontend and the owner, without a bound on switches: with more than two
// requests, or two frontends, there are too many.
func TestAllInterleavings(t *testing.T) {
	cases := []struct {
		name     string
		requests int
		awake    bool
		long     bool
	}{
		{"one request to an owner that sleeps", 1, false, false},
		{"one request to an owner that is about to sleep", 1, true, false},
		{"two requests to an owner that sleeps", 2, false, true},
	}
	mem := simMemory()
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if c.long && os.Getenv("RANKD_SIM_SCHEDULES") == "" {
				t.Skip("long: set RANKD_SIM_SCHEDULES")
			}
			sc := scenario{
				Frontends: 1, Requests: c.requests, Clients: 1, MaxRows: 1, Writers: 1, Slabs: 2, Capacity: 2, Chunk: 1, Depth: 1,
				Inline: true, Alone: true, Awake: c.awake,
			}
			x := &traces{}
			whole, cut, longest := 0, 0, 0
			began := time.Now()
			for again := true; again; again = x.next() {
				w := newSimWorld(sc, mem, x)
				x.armed = func() bool { return w.armed }
				if failure := w.run(); failure != "" {
					t.Fatalf("%s\n%s", failure, present(sc, thin(sc, w.sim.record, mem), mem))
				}
				if w.sim.abandoned {
					cut++
				} else {
					whole++
				}
				longest = max(longest, w.sim.step)
			}
			t.Logf("%d schedules, one of each class, and %d prefixes of classes already seen; up to %d steps; %.1f s", whole, cut, longest, time.Since(began).Seconds())
		})
	}
}
