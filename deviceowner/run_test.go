package deviceowner

import (
	"context"
	"slices"
	"testing"
	"time"

	"rankd/internal/batching"
	"rankd/internal/testutil"
)

// running is a loop in its own goroutine.
type running struct {
	cancel context.CancelFunc
	err    chan error
}

func (r *rig) run(ctx context.Context) *running {
	ctx, cancel := context.WithCancel(ctx)
	v := &running{cancel: cancel, err: make(chan error, 1)}
	go func() { v.err <- r.loop.Run(ctx) }()
	r.t.Cleanup(cancel)
	return v
}

// stop ends the loop and fails the test if it ends with an error or too late.
func (r *rig) stop(v *running) {
	r.t.Helper()
	v.cancel()
	select {
	case err := <-v.err:
		if err != nil {
			r.t.Errorf("run: %v", err)
		}
	case <-time.After(10 * time.Second):
		r.t.Fatal("the loop does not end")
	}
}

// draining tells the loop to stop and waits until it has begun to.
func (r *rig) draining(v *running) {
	r.t.Helper()
	v.cancel()
	testutil.Eventually(r.t, 10*time.Second, "the loop to hear of the end", r.loop.stopped.Load)
	r.awaitBeats(2)
}

// await takes scores until the call is answered.
func (r *rig) await(calls ...*call) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for _, c := range calls {
		for waiting := true; waiting; {
			r.deliver()
			select {
			case <-c.done:
				waiting = false
			case <-r.bells[0]:
			case <-time.After(time.Millisecond):
			case <-deadline:
				r.t.Fatalf("call %d is not answered", c.first)
			}
		}
	}
}

// awaitBeats waits until the loop has turned some more times.
func (r *rig) awaitBeats(n uint64) {
	r.t.Helper()
	want := r.super.OwnerHeartbeat() + n
	testutil.Eventually(r.t, 10*time.Second, "turns of the loop", func() bool { return r.super.OwnerHeartbeat() >= want })
}

// await waits until n launches are in flight and returns them.
func (f *fake) await(n int) (flying []*flight) {
	f.t.Helper()
	testutil.Eventually(f.t, 10*time.Second, "launches in flight", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		flying = slices.Clone(f.flying)
		return len(flying) >= n
	})
	return flying
}

func TestI5TheLoopTurnsWhileALaunchHangs(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 2, realTime: true})
	v := r.run(t.Context())
	hung := r.request(0, 10, 1)
	f := r.exec.await(1)[0]
	r.awaitBeats(3)
	testutil.Eventually(t, 10*time.Second, "the launch to become old", func() bool { return r.super.OldestLaunch() > 50*time.Millisecond })
	other := r.request(0, 20, 1) // the other place goes on
	both := r.exec.await(2)
	if age := r.super.OldestLaunch(); age < 50*time.Millisecond {
		t.Errorf("the oldest launch is %v old, want the age of the one that hangs", age)
	}
	both[1].end()
	r.await(other)
	r.wantUnanswered(hung)
	if age := r.super.OldestLaunch(); age < 50*time.Millisecond {
		t.Errorf("the oldest launch is %v old, want the age of the one that hangs", age)
	}
	v.cancel()
	r.awaitBeats(3) // also while it waits for the end
	select {
	case err := <-v.err:
		t.Fatalf("I2: the loop ended with a launch in flight: %v", err)
	default:
	}
	f.end()
	r.await(hung)
	r.stop(v)
	r.loop.ring.Recycle()
	r.wantAtRest()
}

func TestTheEndFinishesWhatIsClosedAndOpen(t *testing.T) {
	for _, kind := range batching.All() {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, setup{batching: string(kind), maxDelay: time.Second, depth: 1, realTime: true})
			var calls []*call
			for i := range uint32(4) { // launched, queued and open ones
				calls = append(calls, r.request(0, 100*i, 2))
				r.settle()
			}
			late := r.reserve(0, 1000, 1)
			r.exec.auto = func(f *flight) { go f.end() }
			for _, f := range r.exec.flying {
				go f.end()
			}
			r.loop.stopped.Store(true) // it was told to stop before its first turn, so it opens nothing
			v := r.run(t.Context())
			r.fronts[0].Commit(&late.res)
			r.stop(v)
			r.wantAnswered(append(calls, late)...)
			if v := r.region.View(); !kind.Alone() && v.OpenMask != 0 {
				t.Errorf("open slabs %#x after the end, want none", v.OpenMask)
			}
			r.loop.ring.Recycle()
			r.wantAtRest()
		})
	}
}

func TestTheEndDoesNotWaitForACommitForEver(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	late := r.reserve(0, 10, 1)
	r.settle()
	v := r.run(t.Context())
	r.draining(v)
	r.clock.advance(drainLimit)
	r.stop(v)
	r.fronts[0].Commit(&late.res)
	r.succeed(2) // it is safe in the region
	r.settle()
	r.finish(0)
	r.wantAnswered(late)
}

func TestNothingIsLaunchedAfterTheLimit(t *testing.T) {
	r := newRig(t, setup{batching: "off", depth: 1})
	r.request(0, 10, 1)
	r.request(0, 20, 1)
	r.settle()
	v := r.run(t.Context())
	r.draining(v)
	r.clock.advance(drainLimit)
	r.exec.flight(0).end()
	r.stop(v)
	r.exec.wantRows()
}

func TestI8AnEndJustBeforeTheSleepPreventsIt(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	r.loop.stopped.Store(true)
	r.loop.parked = parked{recheck: r.loop.parked.recheck}
	if !r.loop.recheck() {
		t.Error("the loop would sleep although it was told to stop")
	}
}

func TestAnEndWithoutWorkIsImmediate(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1, realTime: true})
	v := r.run(t.Context())
	r.awaitBeats(1)
	began := time.Now()
	r.stop(v)
	if took := time.Since(began); took > drainLimit/2 {
		t.Errorf("the end took %v without any work", took)
	}
}
