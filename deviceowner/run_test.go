package deviceowner

import (
	"context"
	"testing"
	"time"
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

// end1 waits for a launch and ends it.
func (f *fake) end1(t testing.TB) {
	t.Helper()
	f.await(t, 1)[0].end()
}

// await waits until n launches are in flight.
func (f *fake) await(t testing.TB, n int) []*flight {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(100 * time.Microsecond) {
		f.mu.Lock()
		flying := append([]*flight(nil), f.flying...)
		f.mu.Unlock()
		if len(flying) >= n {
			return flying
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d launches in flight, want %d", len(flying), n)
		}
	}
}
