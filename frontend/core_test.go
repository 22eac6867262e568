package frontend

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"rankd/frontend/wire/rankdpb"
	"rankd/internal/stats"
	"rankd/internal/testutil"
	"rankd/shmring"
)

// device completes what is committed until the test ends.
func (b *bench) device(t testing.TB, chunks int) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				b.ring.complete(chunks, shmring.StatusOK)
			}
		}
	})
	stop = sync.OnceFunc(func() { close(quit); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func (b *bench) send(t testing.TB, deadline time.Time, ids ...int64) (*answer, Ticket) {
	a := newAnswer()
	ticket := b.ScoreUnary(APIPredict, encode(t, predictOf(ids...)), deadline, a)
	return a, ticket
}

// restored checks that every account is back at zero.
func (b *bench) restored(t testing.TB) {
	t.Helper()
	testutil.Eventually(t, 20*time.Second, "accounts at zero", func() bool {
		calls, rows := b.queue.load()
		return b.ring.pending.Load() == 0 && b.inflight.Load() == 0 && b.open.Load() == 0 && calls == 0 && rows == 0 &&
			b.queue.hungry.Load() == 0 && b.gathering.Load() == 0 && b.space.blocked.Load() == 0 && b.ring.holds.Load() == 0 && b.wheel.empty()
	})
}

func TestRequestIsScoredInChunksThatMaySpanBatches(t *testing.T) {
	for _, rows := range []int{1, 3, 4, 5, 31, 64, 1000} {
		b := newBench(t, testConfig(), 24)
		b.device(t, 1)
		ids := sequence(7, rows)
		a, _ := b.send(t, time.Time{}, ids...)
		wantScores(t, a.scores(t), ids)
		for _, c := range b.ring.log {
			if c.n > 4 {
				t.Fatalf("%d rows: a reservation of %d, want at most 4", rows, c.n)
			}
		}
		b.restored(t)
	}
}

func TestTicketSaysWhetherTheRequestIsStillRead(t *testing.T) {
	b := newBench(t, testConfig(), 8)
	small, ticket := b.send(t, time.Time{}, sequence(0, 8)...)
	if ticket.Retained {
		t.Error("all rows are committed, want the request's bytes free")
	}
	large, ticket := b.send(t, time.Time{}, sequence(0, 5)...)
	if !ticket.Retained {
		t.Error("rows wait for room, want the request's bytes retained")
	}
	b.device(t, 100)
	small.wait(t)
	large.wait(t)
	b.restored(t)
}

func TestCallsThatWaitForRoomTakeTurns(t *testing.T) {
	cfg := testConfig()
	cfg.GatherWorkers = 1
	b := newBench(t, cfg, 4)
	blocker, _ := b.send(t, time.Time{}, sequence(0, 4)...) // fills the region
	huge, _ := b.send(t, time.Time{}, sequence(0, 400)...)
	var small []*answer
	for i := range 3 {
		a, _ := b.send(t, time.Time{}, sequence(i, 4)...)
		small = append(small, a)
	}
	// One chunk at a time: the huge call may be ahead of the small ones by its turn and the chunk that its worker held.
	for turn := 0; small[2].waiting(); turn++ {
		if turn > 8 {
			t.Fatalf("small calls are not done after %d chunks of 4 rows", turn)
		}
		want := b.ring.committedRows() + 4
		b.ring.complete(1, shmring.StatusOK)
		testutil.Eventually(t, 10*time.Second, "the next chunk", func() bool { return b.ring.committedRows() >= want || !small[2].waiting() })
	}
	if !huge.waiting() {
		t.Error("the huge call is done, want it still waiting")
	}
	for _, a := range small {
		a.wait(t)
	}
	b.device(t, 10)
	wantScores(t, huge.scores(t), sequence(0, 400))
	blocker.wait(t)
	b.restored(t)
}

// A request is not bound to its connection's goroutine: beyond the first chunks all gather workers sweep rows of it at once.
func TestOneLargeRequestIsGatheredByAllWorkersAtOnce(t *testing.T) {
	const workers = 4
	cfg := testConfig()
	cfg.GatherWorkers, cfg.InlineChunks = workers, 1
	var sweeps atomic.Int32
	together := make(chan struct{})
	b := newBench(t, cfg, 1000, func(c *Core) {
		c.tables.(*fakeTables).sweeps = func() {
			n := sweeps.Add(1)
			if n == 1+workers {
				close(together)
			}
			if n == 1 || n > 1+workers {
				return // the connection's own chunk, and what comes after the meeting
			}
			select {
			case <-together:
			case <-time.After(20 * time.Second):
				t.Errorf("waited in vain for %d workers to sweep rows of one request at once: %d came", workers, sweeps.Load()-1)
			}
		}
	})
	b.device(t, 100)
	ids := sequence(3, 200)
	a, _ := b.send(t, time.Time{}, ids...) // the workers may be done before the connection looks for more
	wantScores(t, a.scores(t), ids)
	if n := sweeps.Load(); n < 1+workers {
		t.Errorf("got %d sweeps, want one of the connection and one of each of %d workers", n, workers)
	}
	b.restored(t)
}

func TestSmallCallQueuesBehindThoseThatWait(t *testing.T) {
	b := newBench(t, testConfig(), 4)
	first, _ := b.send(t, time.Time{}, sequence(0, 4)...)
	second, _ := b.send(t, time.Time{}, sequence(0, 4)...)
	testutil.Eventually(t, 10*time.Second, "a call waits for room", b.starved)
	b.ring.mu.Lock()
	b.ring.room++ // room that nobody was told of
	b.ring.mu.Unlock()
	third, ticket := b.send(t, time.Time{}, 1)
	if !ticket.Retained {
		t.Error("a later call was placed at once, want it behind the one that waits")
	}
	b.device(t, 1)
	for _, a := range []*answer{first, second, third} {
		a.wait(t)
	}
	b.restored(t)
}

// sharing gives the named inputs one row that serves all; it is zeros for "dense".
func sharing(p *rankdpb.PredictRequest, id int64, names ...string) *rankdpb.PredictRequest {
	for _, name := range names {
		in := p.Inputs[name]
		in.Data = binary.LittleEndian.AppendUint64(nil, uint64(id))
		if name == "dense" {
			in.Data = make([]byte, 52)
		}
		in.Shape[0] = 1
	}
	return p
}

// However a request is cut into chunks and dealt out to slabs and workers, a bag that serves all of its rows is looked up once.
func TestBagsThatServeAllRowsAreLookedUpOnce(t *testing.T) {
	for _, inline := range []int{1, 8} {
		for _, rows := range []int{2, 4, 5, 31, 1000} {
			cfg := testConfig()
			cfg.InlineChunks = inline
			b := newBench(t, cfg, 24)
			b.ring.mu.Lock()
			b.ring.rng = rand.New(rand.NewPCG(1, uint64(rows))) // reservations of fewer rows than were asked for
			b.ring.mu.Unlock()
			b.device(t, 1)
			ids := sequence(7, rows)
			for range 2 { // the second one finds what the first has left
				a := newAnswer()
				b.ScoreUnary(APIPredict, encode(t, sharing(predictOf(ids...), 9, "t0", "t2", "dense")), time.Time{}, a)
				got := a.scores(t)
				for i, id := range ids {
					if want := float32(1*9 + 2*id + 3*9 + 4*id); got[i] != want {
						t.Fatalf("%d rows: score %d: got %v, want %v", rows, i, got[i], want)
					}
				}
			}
			b.restored(t)
			b.tables.mu.Lock()
			if b.tables.forAll != 2*2 || b.tables.forRow != 2*2*rows {
				t.Errorf("%d rows: got %d bags looked up for all rows and %d for single ones, want 4 and %d", rows, b.tables.forAll, b.tables.forRow, 4*rows)
			}
			b.tables.mu.Unlock()
			a, _ := b.send(t, time.Time{}, ids...) // and one without such bags is not mistaken for one
			wantScores(t, a.scores(t), ids)
			if b.tables.forAll != 4 {
				t.Errorf("got bags looked up for all rows of a request that has none")
			}
			b.restored(t)
		}
	}
}

func TestWholeRequestsAreReservedInOne(t *testing.T) {
	cfg := testConfig()
	cfg.Batching = "off"
	b := newBench(t, cfg, 60)
	b.device(t, 1)
	ids := sequence(3, 40)
	a, _ := b.send(t, time.Time{}, ids...)
	wantScores(t, a.scores(t), ids)
	if len(b.ring.log) != 1 || b.ring.log[0].n != 40 {
		t.Errorf("got reservations %v, want one of 40 rows", b.ring.log)
	}
	b.restored(t)
}

func TestCancelledCallIsAnsweredAtOnceAndItsRowsComeBack(t *testing.T) {
	b := newBench(t, testConfig(), 8)
	a, ticket := b.send(t, time.Time{}, sequence(0, 40)...)
	ticket.Cancel()
	a.wait(t)
	if a.err == nil || a.err.Code != codes.Canceled {
		t.Fatalf("got %v, want a cancelled error", a.err)
	}
	ticket.Cancel() // a second one does nothing
	b.device(t, 1)
	b.restored(t)
	if n := b.ring.committedRows(); n > 8+2*4 {
		t.Errorf("%d rows were committed after the cancellation of a call with room for 8", n)
	}
	if got := a.replies.Load(); got != 1 {
		t.Errorf("got %d replies, want 1", got)
	}
}

func TestTicketOfAnEarlierCallCancelsNothing(t *testing.T) {
	b := newBench(t, testConfig(), 1000)
	stop := b.device(t, 100)
	a, old := b.send(t, time.Time{}, 1)
	a.wait(t)
	b.restored(t)
	stop()
	later, _ := b.send(t, time.Time{}, 2) // takes the same object from the pool
	old.Cancel()
	b.device(t, 100)
	wantScores(t, later.scores(t), []int64{2})
}

func TestCallEndsAtItsDeadlineOrAtTheLimitForThoseWithout(t *testing.T) {
	cfg := testConfig()
	cfg.NoDeadlineMS = 150
	b := newBench(t, cfg, 8)
	start := time.Now()
	with, _ := b.send(t, start.Add(50*time.Millisecond), sequence(0, 4)...)
	without, _ := b.send(t, time.Time{}, sequence(0, 40)...)
	with.wait(t)
	if d := time.Since(start); with.err == nil || with.err.Code != codes.DeadlineExceeded || d < 50*time.Millisecond {
		t.Errorf("after %s: got %v, want deadline_exceeded not before 50 ms", d, with.err)
	}
	without.wait(t)
	if d := time.Since(start); without.err == nil || without.err.Reason != ReasonDeadlineExceeded || d < 150*time.Millisecond {
		t.Errorf("after %s: got %v, want deadline_exceeded not before 150 ms", d, without.err)
	}
	b.device(t, 10)
	b.restored(t)
}

func TestCallWhoseDeadlineHasPassedIsNotStarted(t *testing.T) {
	b := newBench(t, testConfig(), 8)
	a, _ := b.send(t, time.Now().Add(-time.Millisecond), 1)
	a.wait(t)
	if a.err == nil || a.err.Reason != ReasonDeadlineExceeded || b.ring.committedRows() != 0 {
		t.Errorf("got %v and %d rows committed, want deadline_exceeded and none", a.err, b.ring.committedRows())
	}
}

func TestDeviceErrorFailsTheCallOfTheRowsAlone(t *testing.T) {
	b := newBench(t, testConfig(), 100)
	bad, _ := b.send(t, time.Time{}, sequence(0, 4)...)
	good, _ := b.send(t, time.Time{}, sequence(9, 4)...)
	b.ring.complete(1, shmring.StatusDeviceError)
	b.ring.complete(1, shmring.StatusOK)
	bad.wait(t)
	if bad.err == nil || bad.err.Code != codes.Internal || bad.err.Reason != ReasonDeviceError {
		t.Errorf("got %v, want device_error", bad.err)
	}
	wantScores(t, good.scores(t), sequence(9, 4))
	b.restored(t)
}

func TestPanicInALookupFailsItsCallAndLeavesNoReservationOpen(t *testing.T) {
	for where := int32(1); where <= 3; where++ {
		b := newBench(t, testConfig(), 100)
		b.tables.panics.Store(where)
		bad := newAnswer()
		b.ScoreUnary(APIPredict, encode(t, sharing(predictOf(sequence(0, 12)...), 3, "t0")), time.Time{}, bad)
		b.device(t, 10)
		bad.wait(t)
		if bad.err == nil || bad.err.Code != codes.Internal || bad.err.Reason != ReasonInternal {
			t.Errorf("got %v, want an internal error", bad.err)
		}
		good, _ := b.send(t, time.Time{}, 5)
		wantScores(t, good.scores(t), []int64{5})
		if got := b.block.Load(stats.Panics); got != 1 {
			t.Errorf("got %d panics counted, want 1", got)
		}
		b.restored(t)
	}
}

func TestCallsEndWithinTwoSecondsWhileTheOwnerBacksOff(t *testing.T) {
	b := newBench(t, testConfig(), 8)
	a, _ := b.send(t, time.Time{}, sequence(0, 40)...)
	start := time.Now()
	b.ring.state.Store(uint32(shmring.OwnerBackoff))
	refused, _ := b.send(t, time.Time{}, 1)
	refused.wait(t)
	if refused.err == nil || refused.err.Code != codes.Unavailable || refused.err.Reason != ReasonDeviceRestarting || refused.err.Retry == 0 {
		t.Errorf("new call: got %v, want device_restarting with a retry", refused.err)
	}
	a.wait(t)
	if d := time.Since(start); a.err == nil || a.err.Reason != ReasonDeviceRestarting || d > 2*time.Second {
		t.Errorf("open call: got %v after %s, want device_restarting within 2 s", a.err, d)
	}
	b.ring.state.Store(uint32(shmring.OwnerUp))
	b.device(t, 10)
	b.restored(t)
	again, _ := b.send(t, time.Time{}, 3)
	wantScores(t, again.scores(t), []int64{3})
}

func TestRestartingOwnerOnlyDelays(t *testing.T) {
	b := newBench(t, testConfig(), 100)
	b.ring.state.Store(uint32(shmring.OwnerRestarting))
	a, _ := b.send(t, time.Time{}, 3)
	b.ring.state.Store(uint32(shmring.OwnerUp))
	b.device(t, 10)
	wantScores(t, a.scores(t), []int64{3})
}

func TestDrainRefusesNewCallsAndWaitsForTheOpenOnes(t *testing.T) {
	b := newBench(t, testConfig(), 100)
	open, _ := b.send(t, time.Time{}, sequence(0, 12)...)
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := b.Drain(short); err == nil {
		t.Fatal("drain ended with a call open, want the context's error")
	}
	refused, _ := b.send(t, time.Time{}, 1)
	refused.wait(t)
	if refused.err == nil || refused.err.Code != codes.Unavailable || refused.err.Reason != ReasonDraining || refused.err.Retry == 0 {
		t.Errorf("got %v, want draining with a retry", refused.err)
	}
	b.device(t, 10)
	if err := b.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantScores(t, open.scores(t), sequence(0, 12))
}

func TestCloseFailsWhatIsOpen(t *testing.T) {
	b := newBench(t, testConfig(), 4)
	a, _ := b.send(t, time.Time{}, sequence(0, 100)...)
	b.Close()
	a.wait(t)
	if a.err == nil || a.err.Reason != ReasonDraining {
		t.Errorf("got %v, want draining", a.err)
	}
}

// The first lookup of a large call ends only when another one of the same call has begun.
func TestLargeCallIsSpreadOverIdleWorkers(t *testing.T) {
	var begun atomic.Int32
	both := make(chan struct{})
	b := newBench(t, testConfig(), 256, func(c *Core) {
		c.threads, c.spread = 2, 0
		c.tables.(*fakeTables).sweeps = func() {
			if begun.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(20 * time.Second):
				t.Error("one goroutine looked up alone for 20 s, want help")
			}
		}
	})
	b.device(t, 16)
	ids := sequence(0, 32) // as many chunks as a connection looks up by itself
	a, _ := b.send(t, time.Time{}, ids...)
	wantScores(t, a.scores(t), ids)
	b.restored(t)
}

func TestCallIsNotSpreadWhereNothingIsGained(t *testing.T) {
	for name, set := range map[string]func(c *Core){
		"one processor":   func(c *Core) { c.threads, c.spread = 1, 0 },
		"busy processors": func(c *Core) { c.threads, c.spread = 2, 0; c.gathering.Store(1) },
		"small request":   func(c *Core) { c.threads, c.spread = 2, 1<<20 },
	} {
		b := newBench(t, testConfig(), 256, set)
		b.device(t, 16)
		ids := sequence(0, 32)
		a, ticket := b.send(t, time.Time{}, ids...)
		if ticket.Retained {
			t.Errorf("%s: got a request that workers read, want one that its connection looked up", name)
		}
		wantScores(t, a.scores(t), ids)
	}
}
