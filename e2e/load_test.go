package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// load is callers that send requests over lanes and mark what comes back.
type load struct {
	exam     *exam
	lanes    []*lane
	callers  int
	seed     uint64
	rows     func(*rand.Rand) int // of a request
	deadline time.Duration        // of a call; 0: a long one
	total    int64                // requests to send; 0: until stopped
	fragile  bool                 // a caller ends with its first failure

	sent    atomic.Int64
	scored  atomic.Int64
	rowsOK  atomic.Int64
	wrong   atomic.Int64
	stopped atomic.Bool
	done    sync.WaitGroup

	mu       sync.Mutex
	failures []failure
	samples  []string // of wrong replies
}

// failure is a call that got no scores.
type failure struct {
	lane         *lane
	began, ended time.Time
	err          error
}

func (f failure) String() string {
	return fmt.Sprintf("after %v: %v", f.ended.Sub(f.began).Round(time.Millisecond), f.err)
}

// start sets the callers going.
func (l *load) start() *load {
	for i := range l.callers {
		rng := random(l.seed, fmt.Sprintf("caller %d", i))
		l.done.Go(func() { l.call(l.lanes[i%len(l.lanes)], rng) })
	}
	return l
}

// stop lets the open calls end.
func (l *load) stop() { l.stopped.Store(true); l.done.Wait() }

func (l *load) call(lane *lane, rng *rand.Rand) {
	for !l.stopped.Load() && (l.total == 0 || l.sent.Add(1) <= l.total) {
		switch answered := l.once(lane, rng); {
		case answered:
		case l.fragile:
			return
		case l.total == 0: // a broken server must not turn the load into a busy loop
			<-time.After(time.Millisecond)
		}
	}
}

// once makes one call and marks the reply. It reports whether there was one.
func (l *load) once(lane *lane, rng *rand.Rand) (answered bool) {
	picks := l.exam.pick(rng, l.rows(rng))
	f, kind := form(rng.IntN(int(forms))), rng.IntN(3)
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(l.deadline, time.Minute))
	defer cancel()
	began := time.Now()
	answered, err := l.exam.ask(ctx, lane, picks, f, kind)
	switch {
	case err == nil:
		l.scored.Add(1)
		l.rowsOK.Add(int64(len(picks)))
	case answered:
		l.wrong.Add(1)
		l.mu.Lock()
		if len(l.samples) < 5 {
			l.samples = append(l.samples, fmt.Sprintf("form %d kind %d: %v", f, kind, err))
		}
		l.mu.Unlock()
	default:
		l.mu.Lock()
		l.failures = append(l.failures, failure{lane, began, time.Now(), err})
		l.mu.Unlock()
	}
	return answered
}

// progress waits until so many more calls were scored.
func (l *load) progress(s *server, more int64) {
	s.t.Helper()
	want := l.scored.Load() + more
	s.until(limit, fmt.Sprintf("%d more scored calls", more), func() bool { return l.scored.Load() >= want }, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.failures); n > 0 {
			return fmt.Sprintf("%d scored, %d failed, the last %v", l.scored.Load(), n, l.failures[n-1])
		}
		return fmt.Sprintf("%d scored", l.scored.Load())
	})
}

// wantRight fails the test for every wrong score (I1).
func (l *load) wantRight(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d calls scored (%d rows), %d failed, %d wrong", l.scored.Load(), l.rowsOK.Load(), len(l.failures), l.wrong.Load())
	if l.wrong.Load() > 0 {
		t.Errorf("got %d replies with wrong scores, want none: %q", l.wrong.Load(), l.samples)
	}
	if l.scored.Load() == 0 {
		t.Error("got no scored call, want a load")
	}
}

// wantNoFailure fails the test for every call that got no scores, but for those that excused accepts.
func (l *load) wantNoFailure(t testing.TB, excused func(failure) bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	bad := slices.DeleteFunc(slices.Clone(l.failures), excused)
	for i, f := range bad[:min(5, len(bad))] {
		t.Errorf("failed call %d of %d: %v", i+1, len(bad), f)
	}
}

func noExcuse(failure) bool { return false }

func unavailable(f failure) bool { return status.Code(f.err) == codes.Unavailable }

// mixedRows is mostly small requests, some of up to large rows, and some above maxBatch.
func mixedRows(large, maxBatch int) func(*rand.Rand) int {
	return func(rng *rand.Rand) int {
		switch p := rng.IntN(100); {
		case p < 60:
			return 1 + rng.IntN(8)
		case p < 90:
			return 1 + rng.IntN(64)
		case p < 97:
			return 1 + rng.IntN(large)
		default:
			return maxBatch + 1 + rng.IntN(maxBatch)
		}
	}
}

func smallRows(rng *rand.Rand) int { return 1 + rng.IntN(24) }
