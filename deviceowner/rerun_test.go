package deviceowner

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/internal/stats"
)

// finishAll ends launches, oldest first, until nothing is in flight, and returns how many there were.
func (r *rig) finishAll() int {
	r.t.Helper()
	n := 0
	for ; len(r.exec.flying) > 0; n++ {
		r.finish(0)
	}
	return n
}

// wantRefused fails the test unless the call got a device error.
func (r *rig) wantRefused(calls ...*call) {
	r.t.Helper()
	r.deliver()
	for _, c := range calls {
		if c.refused != 1 {
			r.t.Errorf("call %d: %d of %d rows answered, %d refusals, want one", c.first, c.answered, c.rows, c.refused)
		}
	}
}

// batch commits calls of several sizes into one slab while a first one occupies the device, so that they form one batch.
func (r *rig) batch() (first *call, batch []*call) {
	r.t.Helper()
	for len(r.exec.flying) < r.loop.depth {
		first = r.request(0, uint32(1+len(r.exec.flying)), 1)
		r.settle()
	}
	return first, []*call{r.request(0, 100, 1), r.request(0, 200, 3), r.request(0, 300, 1), r.request(0, 400, 2)}
}

func TestI4ADeviceErrorRefusesOnlyWhatFailsAlone(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	var log bytes.Buffer
	r.loop.log = slog.New(slog.NewTextHandler(&log, nil))
	r.exec.verdict = poison(300, errDevice)
	first, batch := r.batch()
	r.finish(0)
	r.wantAnswered(first)
	r.finish(0) // the whole batch fails
	r.wantUnanswered(batch...)
	if n := r.finishAll(); n != len(batch) {
		t.Errorf("%d launches after the failure, want one for each of %d reservations", n, len(batch))
	}
	r.wantRefused(batch[2])
	r.wantAnswered(batch[0], batch[1], batch[3])
	r.settle()
	r.wantAtRest()
	r.wantCount(stats.DeviceErrors, "device errors", 2)
	r.wantCount(stats.RefusedCrashers, "refused crashers", 0)
	r.wantCount(stats.Batches, "batches", 1+1+4)
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, errDevice.Error()) {
		t.Errorf("log: %q, want one line with the device's error", text)
	}
	last := r.request(0, 500, 1) // the loop goes on
	r.settle()
	r.finishAll()
	r.wantAnswered(last)
}

func TestAnErrorThatPassesRefusesNobody(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 2})
	_, batch := r.batch()
	r.finish(0)
	r.finish(0)
	r.exec.flight(0).endWith(errDevice)
	r.settle()
	r.finishAll()
	r.wantAnswered(batch...)
	r.settle()
	r.wantAtRest()
}

func TestI6ARerunAndTheQueueTakeTurns(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	_, batch := r.batch()
	r.finish(0)
	r.exec.flight(0).endWith(errDevice)
	var others []*call
	for i := range uint32(6) {
		others = append(others, r.request(0, 1000+100*i, 4))
		r.deliver()
		r.settle()
	}
	alone, whole := 0, 0
	for range 6 {
		if r.exec.flight(0).rows[0] < 1000 {
			alone++
		} else {
			whole++
		}
		r.finish(0)
	}
	if alone != 3 || whole != 3 {
		t.Errorf("of 6 launches %d were the rerun's and %d the queue's, want 3 each", alone, whole)
	}
	r.finishAll()
	r.wantAnswered(append(others, batch...)...)
	r.settle()
	r.wantAtRest()
}

func TestI7AFailedBatchIsRerunBeforeThoseThatWereClosedLater(t *testing.T) {
	r := newRig(t, setup{batching: "off", depth: 1})
	for i := range uint32(3) {
		r.request(0, 10+10*i, 2)
	}
	r.settle()
	r.exec.flight(0).endWith(errDevice)
	r.settle()
	r.exec.wantRows([]uint32{10, 11})
}

func TestI7ASuccessorKeepsTheOrderOfClosedSlabs(t *testing.T) {
	for wrap := range 5 { // the open slab is each of the five in turn
		r := newRig(t, setup{batching: "fused", depth: 1})
		for i := range uint32(wrap) {
			r.request(0, i, 1)
			r.settle()
			r.finish(0)
			r.deliver()
			r.settle()
		}
		var calls []*call
		for i := range uint32(4) {
			calls = append(calls, r.request(0, 100*(i+1), 1))
			if i < 3 {
				r.settle() // launched, closed, closed; the last one is in the open slab
			}
		}
		r.succeed(2)
		for _, want := range []uint32{100, 200, 300, 400} {
			r.settle()
			r.exec.wantRows([]uint32{want})
			r.finish(0)
		}
		r.wantAnswered(calls...)
	}
}

func TestTwoFailedBatchesAreRerunOneAfterTheOther(t *testing.T) {
	r := newRig(t, setup{batching: "off", depth: 2})
	a, b, c := r.request(0, 10, 2), r.request(0, 20, 2), r.request(0, 30, 2)
	r.settle()
	r.exec.flight(1).endWith(errDevice)
	r.exec.flight(0).endWith(errDevice)
	r.settle()
	r.finishAll()
	r.wantAnswered(a, b, c)
	r.settle()
	r.wantAtRest()
}

func TestASuccessorRerunsWhatWasOnTheDevice(t *testing.T) {
	for _, batching := range []string{"continuous", "off"} {
		t.Run(batching, func(t *testing.T) {
			r := newRig(t, setup{batching: batching, depth: 2, frontends: 2})
			a := r.request(0, 100, 2)
			r.settle()
			b := r.request(1, 200, 2)
			r.settle()
			c := r.request(0, 300, 2) // not launched: open, or closed and queued
			r.settle()
			d := r.reserve(1, 400, 1) // not committed when the owner dies
			r.exec.wantRows([]uint32{100, 101}, []uint32{200, 201})
			r.succeed(2)
			r.settle()
			r.fronts[1].Commit(&d.res)
			r.settle()
			r.finishAll()
			r.wantAnswered(a, b, c, d)
			r.settle()
			r.wantAtRest()
			r.wantCount(stats.Reruns, "reruns", 2)
		})
	}
}

// TestI4ACrasherIsRefusedAfterMaxTries lets every process that executes a row die. The row's own reservation is tried
// maxTries times alone, and nobody else is refused.
func TestI4ACrasherIsRefusedAfterMaxTries(t *testing.T) {
	const crasher = 300
	r := newRig(t, setup{batching: "continuous", depth: 1})
	first, batch := r.batch()
	r.finish(0)
	r.wantAnswered(first)
	var alone int
	incarnation := uint32(1)
	for len(r.exec.flying) > 0 {
		f := r.exec.flight(0)
		if poison(crasher, errDevice)(f.rows) == nil {
			r.finish(0)
			continue
		}
		if len(f.rows) == 1 {
			alone++
		}
		if incarnation++; incarnation > 10 {
			t.Fatal("the crasher is tried for ever")
		}
		r.succeed(incarnation)
		r.settle()
	}
	if alone != maxTries {
		t.Errorf("the crasher was tried alone %d times, want %d", alone, maxTries)
	}
	r.wantRefused(batch[2])
	r.wantAnswered(batch[0], batch[1], batch[3])
	r.settle()
	r.wantAtRest()
	r.wantCount(stats.RefusedCrashers, "refused crashers", 1)
}

func TestADeathDuringARerunKeepsWhatIsFinished(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	_, batch := r.batch()
	r.finish(0)
	r.succeed(2)
	r.settle()
	r.finish(0) // the first two reservations are executed alone
	r.finish(0)
	r.exec.wantRows([]uint32{300})
	r.succeed(3)
	r.settle()
	if n := r.finishAll(); n != 2 {
		t.Errorf("the next process executes %d reservations, want the 2 that are left", n)
	}
	r.wantAnswered(batch...)
	r.settle()
	r.wantAtRest()
}

func TestADeadDeviceEndsTheLoopAndTheSuccessorGoesOn(t *testing.T) {
	for _, depth := range []int{1, 2} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			r := newRig(t, setup{batching: "continuous", depth: depth})
			first, batch := r.batch()
			dead := fmt.Errorf("lost: %w", executor.ErrDead)
			for range depth {
				r.exec.flight(0).endWith(dead)
			}
			if err := r.loop.Run(t.Context()); !errors.Is(err, executor.ErrDead) {
				t.Fatalf("run: got %v, want %v", err, executor.ErrDead)
			}
			if r.loop.Busy() {
				t.Error("busy although every launch has ended")
			}
			r.exec.wantRows() // nothing is launched on a dead device
			r.succeed(2)
			r.settle()
			r.finishAll()
			r.wantAnswered(append(batch, first)...)
			r.settle()
			r.wantAtRest()
		})
	}
}

func TestADeadDeviceThatKeepsALaunchIsNotWaitedForLong(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 2})
	r.batch()
	r.exec.flight(0).endWith(executor.ErrDead)
	r.settle()
	if r.loop.ended() {
		t.Fatal("ended with a launch in flight (I2)")
	}
	r.clock.advance(drainLimit)
	if !r.loop.ended() || !r.loop.Busy() {
		t.Errorf("ended %v, busy %v after the limit, want both", r.loop.ended(), r.loop.Busy())
	}
}

func TestDeviceErrorsAreLoggedOnceAWhile(t *testing.T) {
	r := newRig(t, setup{batching: "continuous", depth: 1})
	var log bytes.Buffer
	r.loop.log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range uint32(10) {
		r.request(0, i*10, 1)
		r.settle()
		r.exec.verdict = poison(i*10, errDevice)
		r.finishAll()
		r.deliver()
		r.settle()
	}
	r.clock.advance(errorLogPause)
	r.exec.verdict = poison(500, errDevice)
	r.request(0, 500, 1)
	r.settle()
	r.finishAll()
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, log.String())
	}
	if !strings.Contains(log.String(), "others_since_last_line=19") {
		t.Errorf("the second line does not count the errors between:\n%s", log.String())
	}
}
