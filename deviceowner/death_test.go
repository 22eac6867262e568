package deviceowner

import (
	"testing"
	"time"

	"rankd/internal/stats"
	"rankd/internal/testutil"
)

// kill marks a frontend dead as its supervisor would; calls of it are never answered.
func (r *rig) kill(frontend int) {
	r.super.MarkDead(frontend, 1)
	r.fronts[frontend] = r.fronts[(frontend+1)%len(r.fronts)] // nobody polls for the dead one
}

func TestRowsOfADeadFrontendAreExecutedLikePadding(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1, frontends: 2})
	first := r.request(1, 10, 1)
	r.settle()
	r.reserve(0, 100, 2) // never committed
	other := r.request(1, 200, 2)
	r.finish(0)
	r.wantAnswered(first)
	r.exec.wantRows() // the slab waits for the commit
	r.kill(0)
	r.settle()
	r.exec.wantRows([]uint32{100, 101, 200, 201})
	r.finish(0)
	r.wantAnswered(other)
	r.settle()
	if !r.super.Recovered(0) {
		t.Error("the dead frontend's traces are not gone")
	}
	r.wantAtRest()
	r.wantCount(stats.Graces, "graces", 1)
}

func TestASlabThatNobodyWantsIsNotLaunched(t *testing.T) {
	for _, committed := range []bool{false, true} {
		r := newRig(t, setup{batching: "continuous", depth: 1, frontends: 2})
		first := r.request(1, 10, 1)
		r.settle()
		c := r.reserve(0, 100, 2)
		if committed {
			r.fronts[0].Commit(&c.res)
		}
		r.kill(0)
		r.settle()
		r.finish(0)
		r.exec.wantRows()
		r.wantAnswered(first)
		r.settle()
		r.wantAtRest()
		r.wantCount(stats.Batches, "batches", 1)
	}
}

func TestAGraceLooksAgainSoon(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1, frontends: 3})
	r.reserve(0, 100, 1)
	slow := r.reserve(1, 200, 1) // alive, between reservation and commit
	other := r.request(2, 300, 1)
	r.settle()
	r.kill(0)
	r.settle()
	r.exec.wantRows()
	r.clock.advance(time.Hour)
	r.settle()
	if got := r.loop.sleepLimit(); got != gracePoll {
		t.Errorf("I8: sleep of %v during a grace period, want %v", got, gracePoll)
	}
	r.fronts[1].Commit(&slow.res)
	r.settle()
	r.exec.wantRows([]uint32{100, 200, 300})
	r.finish(0)
	r.wantAnswered(slow, other)
}

// TestStragglersAreAskedForOnce uses the real clock, by which the ring tells the age of a slab.
func TestStragglersAreAskedForOnce(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1, frontends: 2, straggler: 100 * time.Millisecond, realTime: true})
	r.reserve(0, 100, 1) // and then it is stopped
	other := r.request(1, 200, 1)
	ended := r.run(t.Context())
	testutil.Eventually(t, 10*time.Second, "somebody asks for the end of a frontend that holds a batch up", func() bool {
		_, wanted := r.super.KillRequest(0)
		return wanted
	})
	if _, wanted := r.super.KillRequest(1); wanted {
		t.Error("the frontend that waits is to be killed")
	}
	r.awaitBeats(5) // further looks find the same one
	r.super.MarkDead(0, 1)
	r.exec.await(1)[0].end()
	r.await(other)
	r.stop(ended)
	r.wantCount(stats.StragglerRequests, "straggler requests", 1)
}
