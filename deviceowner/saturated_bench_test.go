package deviceowner

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
	"rankd/shmring"
)

// paced is a device with a timeline: a launch takes 350 µs and begins when the one before it has ended. It sleeps on a thread of
// its own with a resolution of a microsecond, as the simulated accelerator does.
type paced struct {
	instant
	jobs chan func()
	done chan struct{}
}

const pacedLaunch = 350 * time.Microsecond

func newPaced(depth int) *paced {
	x := &paced{instant: instant{depth}, jobs: make(chan func(), depth), done: make(chan struct{})}
	go x.run()
	return x
}

func (x *paced) run() {
	runtime.LockOSThread() // the thread ends with this goroutine, and its timer slack too
	defer close(x.done)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	free := time.Now()
	for end := range x.jobs {
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(pacedLaunch)
		for left := time.Until(free); left > 0; left = time.Until(free) {
			ts := unix.NsecToTimespec(int64(left))
			_ = unix.Nanosleep(&ts, nil)
		}
		end()
	}
}

func (x *paced) Launch(b *executor.Batch, done func(error)) error {
	x.jobs <- func() { done(x.instant.Launch(b, func(error) {})) }
	return nil
}

// endless sends rows as long as there is room: it keeps the owner supplied with full slabs.
type endless struct{ sent, back int }

func (e *endless) Complete(_ int, scores []byte, _ shmring.Status) { e.back += len(scores) / 4 }

// BenchmarkSaturated is what a batch takes on a device that is never idle, with the loop and everything around it; "bare" launches
// the same batches on the same kind of device and does nothing else.
func BenchmarkSaturated(b *testing.B) {
	b.Run("loop", func(b *testing.B) {
		r := newRig(b, setup{batching: "continuous", depth: 2, realTime: true})
		x := newPaced(2)
		r.loop.exec = x
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.loop.Run(ctx) }()
		e := &endless{}
		supply := func() {
			for {
				v, ok := r.fronts[0].Reserve(4, false, e, 0)
				if !ok {
					return
				}
				writeRows(&v, 0)
				r.fronts[0].Commit(&v)
				e.sent += v.N
			}
		}
		supply()
		for b.Loop() { // a slab of rows comes back
			for want := e.back + testCapacity; e.back < want; {
				supply()
				if r.fronts[0].Poll() == 0 {
					r.fronts[0].AnnounceSpace()
					supply()
					<-r.bells[0]
				}
			}
		}
		b.StopTimer()
		for e.back < e.sent {
			if r.fronts[0].Poll() == 0 {
				<-r.bells[0]
			}
		}
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		close(x.jobs)
		<-x.done
	})
	b.Run("bare", func(b *testing.B) {
		x := newPaced(2)
		batch := &executor.Batch{Bucket: testCapacity, Rows: testCapacity, Arrays: [][]byte{make([]byte, testCapacity*testStride)}, Scores: make([]byte, 4*testCapacity)}
		done := make(chan error, 2)
		finish := func(err error) { done <- err }
		for range 2 {
			if err := x.Launch(batch, finish); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			<-done
			if err := x.Launch(batch, finish); err != nil {
				b.Fatal(err)
			}
		}
		<-done
		<-done
		close(x.jobs)
		<-x.done
	})
}
