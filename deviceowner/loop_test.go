package deviceowner

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"rankd/internal/stats"
	"rankd/shmring"
)

func TestContinuousFormsBatchesWhileTheDeviceIsBusy(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 2})
	a := r.request(0, 10, 1)
	r.settle()
	b := r.request(0, 20, 2)
	r.settle()
	r.exec.wantRows([]uint32{10}, []uint32{20, 21}) // no timer: each goes as soon as the device can take it
	c, d := r.request(0, 30, 1), r.request(0, 40, 1)
	r.settle()
	r.exec.wantRows([]uint32{10}, []uint32{20, 21})
	r.finish(0)
	r.exec.wantRows([]uint32{20, 21}, []uint32{30, 40})
	r.wantAnswered(a)
	r.wantUnanswered(b, c, d) // I2
	r.finish(0)
	r.finish(0)
	r.wantAnswered(b, c, d)
	r.settle()
	r.wantAtRest()
}

func TestLingerWaitsForMoreRowsAndThenForTheDeviceOnly(t *testing.T) {
	r := newRig(t, setup{batching: "linger", maxDelay: time.Millisecond, depth: 1})
	r.request(0, 10, 1)
	r.settle()
	r.exec.wantRows()
	if got := r.loop.sleepLimit(); got != time.Millisecond {
		t.Errorf("I8: sleep of %v after the first row, want %v", got, time.Millisecond)
	}
	r.clock.advance(600 * time.Microsecond)
	r.request(0, 20, 1) // a later row does not move the end
	r.settle()
	if got := r.loop.sleepLimit(); got != 400*time.Microsecond {
		t.Errorf("I8: sleep of %v, want %v", got, 400*time.Microsecond)
	}
	r.clock.advance(400 * time.Microsecond)
	r.settle()
	r.exec.wantRows([]uint32{10, 20})
	r.request(0, 30, 1)
	r.settle()
	r.clock.advance(time.Hour)
	r.settle()
	r.exec.wantRows([]uint32{10, 20})
	if got := r.loop.sleepLimit(); got != shmring.MaxPark {
		t.Errorf("sleep of %v while only the device is waited for, want %v", got, shmring.MaxPark)
	}
	r.finish(0)
	r.exec.wantRows([]uint32{30})
	r.finish(0)
	r.deliver()
	r.settle()
	r.wantAtRest()
}

func TestI8LingerCountsFromARowThatCameJustBeforeTheSleep(t *testing.T) {
	r := newRig(t, setup{batching: "linger", maxDelay: time.Millisecond, depth: 1})
	r.request(0, 10, 1)
	// The loop was about to sleep when the row came: its recheck must stay awake, since the sleep was to be without end.
	r.loop.parked = parked{recheck: r.loop.parked.recheck}
	if !r.loop.recheck() {
		t.Fatal("the first row of a slab is no reason to stay awake")
	}
	r.settle()
	if got := r.loop.sleepLimit(); got != time.Millisecond {
		t.Errorf("sleep of %v after the first row, want %v", got, time.Millisecond)
	}
}

func TestFusedClosesByTimeAlthoughTheDeviceIsBusy(t *testing.T) {
	r := newRig(t, setup{batching: "fused", maxDelay: time.Millisecond, depth: 1})
	for i := range uint32(3) {
		r.request(0, 10*(i+1), 1)
		r.settle()
		r.clock.advance(time.Millisecond)
		r.settle()
	}
	r.exec.wantRows([]uint32{10})
	if got := len(r.loop.queue); got != 2 {
		t.Errorf("closed slabs that wait: %d, want 2", got)
	}
	for _, want := range []uint32{10, 20, 30} { // I7
		r.exec.wantRows([]uint32{want})
		r.finish(0)
	}
	r.deliver()
	r.settle()
	r.wantAtRest()
}

func TestAFullSlabIsClosedAtOnceUnderEveryTimedPolicy(t *testing.T) {
	for _, batching := range []string{"continuous", "linger", "fused"} {
		t.Run(batching, func(t *testing.T) {
			r := newRig(t, setup{batching: batching, maxDelay: time.Second, depth: 1})
			first := []*call{r.request(0, 10, 4), r.request(0, 20, 4)}
			r.settle()
			second := []*call{r.request(0, 30, 4), r.request(0, 40, 4)} // a free slab was opened
			r.settle()
			third := r.request(0, 50, 4)
			r.settle()
			r.finish(0)
			r.wantAnswered(first...)
			r.finish(0)
			r.wantAnswered(second...)
			r.clock.advance(time.Second)
			r.settle()
			r.finish(0)
			r.wantAnswered(third)
			r.settle()
			r.wantAtRest()
		})
	}
}

func TestI7BatchingOffLaunchesRequestsInTheirOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, setup{batching: "off", depth: 2})
	next, finished := uint32(0), uint32(0)
	var calls []*call
	for finished < 500 {
		for range rng.IntN(r.loop.open + 1) { // several between two turns
			calls = append(calls, r.request(0, next*100, 1+rng.IntN(testCapacity)))
			next++
		}
		r.settle()
		for range rng.IntN(len(r.exec.flying) + 1) {
			if got := r.exec.flight(0).rows[0]; got != finished*100 {
				t.Fatalf("launch %d is of request %d", finished, got/100)
			}
			r.finish(0)
			finished++
		}
		if rng.IntN(2) == 0 {
			r.deliver()
			r.settle()
		}
	}
	for len(r.exec.flying) > 0 {
		r.finish(0)
	}
	r.wantAnswered(calls...)
	r.settle()
	r.wantAtRest()
	r.wantCount(stats.Batches, "batches", uint64(len(calls)))
}

func TestI1DepthIsTheLessOfTheTwo(t *testing.T) {
	for _, c := range []struct{ configured, executor, want int }{{1, 4, 1}, {3, 2, 2}, {3, 3, 3}} {
		r := newRig(t, setup{batching: "off", depth: c.configured})
		r.exec.depth = c.executor
		r.super.MarkOwnerDead(1)
		r.start(2)
		r.settle()
		for i := range uint32(c.want + 2) {
			r.request(0, i*100, 1)
		}
		r.settle()
		if got := len(r.exec.flying); got != c.want {
			t.Errorf("depth %d on a device of depth %d: %d launches in flight, want %d", c.configured, c.executor, got, c.want)
		}
	}
}

func TestLaunchesMayEndInAnyOrder(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 3})
	var calls []*call
	for i := range uint32(3) {
		calls = append(calls, r.request(0, 100*i, 1))
		r.settle()
	}
	r.finish(2)
	r.wantAnswered(calls[2])
	r.wantUnanswered(calls[:2]...)
	calls = append(calls, r.request(0, 300, 1)) // its place is used again
	r.settle()
	r.exec.wantRows([]uint32{0}, []uint32{100}, []uint32{300})
	r.finish(1)
	r.wantAnswered(calls[1])
	r.finish(1)
	r.finish(0)
	r.wantAnswered(calls...)
	r.settle()
	r.wantAtRest()
}

func TestI6ALateCommitHoldsUpNobodyElse(t *testing.T) {
	for _, batching := range []string{"continuous", "linger"} {
		t.Run(batching, func(t *testing.T) {
			r := newRig(t, setup{batching: batching, depth: 1, frontends: 2})
			late := r.reserve(0, 10, 1)
			r.settle() // the device is free, so the slab is closed
			other := r.request(1, 20, 1)
			r.settle()
			r.exec.wantRows() // it is young: a commit takes only microseconds
			if got := r.loop.sleepLimit(); got != commitPatience {
				t.Errorf("I8: sleep of %v, want %v", got, commitPatience)
			}
			r.clock.advance(commitPatience)
			r.settle()
			r.exec.wantRows([]uint32{20})
			r.finish(0)
			r.wantAnswered(other)
			r.wantUnanswered(late)
			for i := range uint32(50) { // many more than there are slabs
				c := r.request(1, 100+i, 1)
				r.settle()
				r.finish(0)
				r.wantAnswered(c)
				r.settle()
			}
			r.fronts[0].Commit(&late.res)
			r.settle()
			r.finish(0)
			r.wantAnswered(late)
			r.settle()
			r.wantAtRest()
		})
	}
}

func TestBatchesArePaddedToTheNextBucketAndCounted(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	launches := map[int]int{}
	rows := 0
	for n := 1; n <= testCapacity; n++ {
		for left := n; left > 0; left -= min(left, 4) {
			r.request(0, uint32(100*n+left), min(left, 4))
		}
		r.clock.advance(time.Millisecond)
		r.loop.turn()
		b := r.exec.flight(0).batch
		if b.Rows != n {
			t.Fatalf("batch of %d rows, want %d", b.Rows, n)
		}
		launches[b.Bucket]++
		rows += n
		if got := r.counters.Gauge(stats.LaunchesInFlight); got != 1 {
			t.Errorf("launches in flight: gauge %d, want 1", got)
		}
		r.finish(0)
		r.deliver()
		r.settle()
	}
	if want := map[int]int{1: 1, 2: 1, 4: 2, 8: 4}; !maps.Equal(launches, want) {
		t.Errorf("launches by bucket: %v, want %v", launches, want)
	}
	for i, rows := range r.loop.buckets {
		if got := r.counters.Launches(i); got != uint64(launches[rows]) {
			t.Errorf("launches of %d rows: counted %d, want %d", rows, got, launches[rows])
		}
	}
	r.wantCount(stats.Batches, "batches", testCapacity)
	r.wantCount(stats.BatchRows, "rows", uint64(rows))
	r.wantCount(stats.PaddedRows, "padded rows", 1+3+2+1)
	r.wantAtRest()
}

func TestALoopThatCannotWorkIsRefused(t *testing.T) {
	r := newRig(t, setup{batching: "continuous"})
	for _, buckets := range [][]int{nil, {4}, {16}, append(make([]int, stats.MaxBuckets), testCapacity)} {
		if _, err := NewLoop(Options{Ring: r.loop.ring, Geometry: r.region.Geometry(), Executor: r.exec, Config: r.cfg, Buckets: buckets, Counters: r.counters}); err == nil {
			t.Errorf("buckets %v: no error", buckets)
		}
	}
	r.cfg.PipelineDepth = 0
	if _, err := NewLoop(Options{Ring: r.loop.ring, Geometry: r.region.Geometry(), Executor: r.exec, Config: r.cfg, Buckets: []int{8}, Counters: r.counters}); err == nil {
		t.Error("depth 0: no error")
	}
}

var errDevice = errors.New("device says no")

func TestATurnOfABatchAllocatesNothing(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 2})
	c := newCall(t, 0, 1<<30)
	r.loop.exec = &instant{depth: 2}
	cycle := func() {
		r.send(c)
		for r.loop.turn() {
		}
		r.fronts[0].Poll()
	}
	cycle()
	if n := testing.AllocsPerRun(200, cycle); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
}
