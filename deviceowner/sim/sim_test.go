package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/dtype"
	"rankd/model"
)

// bubbleClock is the time of testing/synctest, where sleeping is exact.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() time.Duration       { return time.Since(c.start) }
func (c bubbleClock) Wait(until time.Duration) { time.Sleep(until - c.Now()) } // sleep: fake time
func (c bubbleClock) Close() error             { return nil }

func testLayout(t testing.TB) *Layout {
	l, err := LayoutOf(&model.Manifest{
		Packed:  []model.PackedArray{{DType: dtype.Float32, Stride: 128}},
		Tables:  []model.Table{{Name: "a", Dim: 16, Slot: model.Slot{}}},
		Dense:   []model.Dense{{Name: "dense", Width: 2, DType: dtype.Float32, Slot: model.Slot{Offset: 64}}},
		Outputs: []model.Output{{Name: "score"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newBatch(bucket, rows int) *executor.Batch {
	b := &executor.Batch{Bucket: bucket, Rows: rows, Arrays: [][]byte{make([]byte, bucket*128)}, Scores: make([]byte, bucket*4)}
	for r := range bucket {
		binary.LittleEndian.PutUint32(b.Arrays[0][r*128:], math.Float32bits(float32(r+1)))
		binary.LittleEndian.PutUint32(b.Arrays[0][r*128+64:], math.Float32bits(float32(1000*r)))
	}
	return b
}

// inBubble runs f with an executor on fake time, buckets 4, 16 and 64 compiled.
func inBubble(t *testing.T, change func(*Options), f func(t *testing.T, e *Executor)) {
	synctest.Test(t, func(t *testing.T) {
		o := Default(testLayout(t))
		o.Clock = bubbleClock{time.Now()}
		if change != nil {
			change(&o)
		}
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []int{4, 16, 64} {
			if err := e.Compile(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		f(t, e)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

type result struct {
	at  time.Duration
	err error
}

// start launches a batch and returns where its end will be told.
func start(t *testing.T, e *Executor, b *executor.Batch) <-chan result {
	t.Helper()
	ch := make(chan result, 1)
	if err := e.Launch(b, func(err error) { ch <- result{e.clock.Now(), err} }); err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestI1LaunchesFollowOneTimeline(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *Executor) {
		const us = time.Microsecond
		first, second := start(t, e, newBatch(64, 40)), start(t, e, newBatch(4, 2))
		if r := <-first; r.at != 350*us+60*us || r.err != nil {
			t.Errorf("first: got %v, want an end at 410µs", r)
		}
		if r := <-second; r.at != 410*us+353*us {
			t.Errorf("second, queued behind the first: got %v, want 763µs", r)
		}
		time.Sleep(1237 * us) // sleep: fake time; the device is idle until 2 ms
		if r := <-start(t, e, newBatch(4, 4)); r.at != 2*time.Millisecond+356*us {
			t.Errorf("third, after a pause: got %v, want 2.356ms", r)
		}
	})
}

func TestI5LinkAndDeviceWorkAtTheSameTime(t *testing.T) {
	var spans []Span
	link := func(o *Options) {
		o.Transfer, o.Trace = 10*time.Microsecond, func(s Span) { spans = append(spans, s) }
	}
	inBubble(t, link, func(t *testing.T, e *Executor) {
		const us = time.Microsecond
		first, second := start(t, e, newBatch(64, 40)), start(t, e, newBatch(64, 20))
		<-first // at 400 + 410 µs; the second has arrived by then
		third := start(t, e, newBatch(64, 64))
		<-second
		if r := <-third; r.at != 1896*us {
			t.Errorf("third: got an end at %v, want 1.896ms", r.at)
		}
		want := []Span{
			{Number: 1, Rows: 40, Sent: 0, Arrived: 400 * us, Began: 400 * us, Ended: 810 * us},
			{Number: 2, Rows: 20, Sent: 400 * us, Arrived: 600 * us, Began: 810 * us, Ended: 1190 * us},
			{Number: 3, Rows: 64, Sent: 810 * us, Arrived: 1450 * us, Began: 1450 * us, Ended: 1896 * us},
		}
		if !slices.Equal(spans, want) {
			t.Errorf("got %+v, want %+v", spans, want)
		}
	})
}

func TestI2PaddingCostsNothingAndKeepsItsScores(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *Executor) {
		b := newBatch(64, 10)
		for i := range b.Scores {
			b.Scores[i] = 0xAB
		}
		if r := <-start(t, e, b); r.at != 365*time.Microsecond {
			t.Errorf("got %v, want 365µs for 10 rows in a bucket of 64", r)
		}
		for r := range 64 {
			got := binary.LittleEndian.Uint32(b.Scores[4*r:])
			want := uint32(0xABABABAB)
			if r < 10 {
				want = math.Float32bits(ScoreRow(e.o.Layout, b.Arrays[0][128*r:128*r+128], false))
			}
			if got != want {
				t.Errorf("row %d: got %#x, want %#x", r, got, want)
			}
		}
	})
}

func TestLaunchRefusesWhatItCannotRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *Executor) {
		no := func(error) { t.Error("done was called") }
		if err := e.Launch(newBatch(8, 8), no); !errors.Is(err, ErrNotCompiled) {
			t.Errorf("unknown bucket: got %v", err)
		}
		if err := e.Launch(newBatch(4, 5), no); err == nil {
			t.Error("more rows than the bucket: got no error")
		}
		short := newBatch(4, 4)
		short.Scores = short.Scores[1:]
		if err := e.Launch(short, no); err == nil {
			t.Error("short scores: got no error")
		}
		ends := []<-chan result{start(t, e, newBatch(4, 4)), start(t, e, newBatch(4, 4))}
		synctest.Wait() // the device has taken the first, which is still in flight
		if err := e.Launch(newBatch(4, 4), no); err == nil || !strings.Contains(err.Error(), "more than 2 in flight") {
			t.Errorf("a third one: got %v", err)
		}
		for _, ch := range ends {
			<-ch
		}
	})
}

func TestLateCompilesAreCounted(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *Executor) {
		<-start(t, e, newBatch(4, 4))
		for _, b := range []int{4, 8} {
			if err := e.Compile(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		if total, late := e.Compiles(); total != 4 || late != 1 {
			t.Errorf("got %d compiles, %d late; want 4, 1", total, late)
		}
	})
}

func TestCloseWaitsForLaunchesAndRefusesMore(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *Executor) {
		ch := start(t, e, newBatch(4, 4))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-ch:
			if r.err != nil || r.at != 356*time.Microsecond {
				t.Errorf("got %v", r)
			}
		default:
			t.Error("Close returned before the launch ended")
		}
		if err := e.Launch(newBatch(4, 4), func(error) {}); !errors.Is(err, ErrClosed) {
			t.Errorf("launch: got %v", err)
		}
		if err := e.Compile(context.Background(), 32); !errors.Is(err, ErrClosed) {
			t.Errorf("compile: got %v", err)
		}
	})
}

func TestFaultsDoWhatTheySay(t *testing.T) {
	t.Run("delay and one failure", func(t *testing.T) {
		inBubble(t, func(o *Options) { o.Faults = Faults{Delay: time.Second, FailAt: 2} }, func(t *testing.T, e *Executor) {
			for n, fails := range []bool{false, true, false} {
				r := <-start(t, e, newBatch(4, 4))
				if errors.Is(r.err, ErrFault) != fails || r.at != time.Duration(n+1)*(time.Second+356*time.Microsecond) {
					t.Errorf("launch %d: got %v", n+1, r)
				}
			}
		})
	})
	t.Run("dead from the second on", func(t *testing.T) {
		inBubble(t, func(o *Options) { o.Faults = Faults{DeadAt: 2} }, func(t *testing.T, e *Executor) {
			for _, dead := range []bool{false, true, true} {
				if r := <-start(t, e, newBatch(4, 4)); errors.Is(r.err, executor.ErrDead) != dead {
					t.Errorf("got %v, want dead %v", r.err, dead)
				}
			}
		})
	})
	t.Run("hang ends at close", func(t *testing.T) {
		inBubble(t, func(o *Options) { o.Faults = Faults{HangAt: 1} }, func(t *testing.T, e *Executor) {
			ch := start(t, e, newBatch(4, 4))
			time.Sleep(time.Hour) // sleep: fake time
			select {
			case r := <-ch:
				t.Errorf("got %v, want it to hang", r)
			default:
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if r := <-ch; !errors.Is(r.err, ErrFault) {
				t.Errorf("got %v", r.err)
			}
		})
	})
	t.Run("poison is seen in carried rows only", func(t *testing.T) {
		poison := float32(7000) // dense[0] of row 7
		inBubble(t, func(o *Options) { o.Faults = Faults{Poison: &poison} }, func(t *testing.T, e *Executor) {
			if r := <-start(t, e, newBatch(16, 7)); r.err != nil {
				t.Errorf("poison in the padding: got %v", r.err)
			}
			if r := <-start(t, e, newBatch(16, 8)); !errors.Is(r.err, ErrFault) {
				t.Errorf("poison in a row: got %v", r.err)
			}
		})
	})
}

func TestFaultsAreParsed(t *testing.T) {
	f, err := parseFaults("delay=20ms,fail=3,dead=9,hang=5,poison=12345,poison-action=crash")
	if err != nil || f.Delay != 20*time.Millisecond || f.FailAt != 3 || f.DeadAt != 9 || f.HangAt != 5 || *f.Poison != 12345 || f.PoisonAction != PoisonCrash {
		t.Errorf("got %+v, %v", f, err)
	}
	for _, bad := range []string{"delay", "delay=1", "fail=-1", "poison=x", "poison-action=explode", "explode=1", ",", "fail=1,"} {
		if _, err := parseFaults(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestRealTimerIsNotEarly(t *testing.T) {
	e, err := New(Options{Layout: testLayout(t), Call: 300 * time.Microsecond, Row: time.Microsecond, Depth: 2, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if e.Name() != "sim (simulated accelerator)" || !e.Simulated() || e.Depth() != 2 {
		t.Errorf("got %q, %v, depth %d", e.Name(), e.Simulated(), e.Depth())
	}
	if err := e.Compile(context.Background(), 16); err != nil {
		t.Fatal(err)
	}
	var late time.Duration
	for n := range 50 {
		b := newBatch(16, 16)
		begin := time.Now()
		done := make(chan time.Duration, 1)
		if err := e.Launch(b, func(error) { done <- time.Since(begin) }); err != nil {
			t.Fatal(err)
		}
		took := <-done
		if want := 316 * time.Microsecond; took < want {
			t.Errorf("launch %d: got %v, want at least %v", n, took, want)
		} else {
			late += took - want
		}
		if got, want := math.Float32frombits(binary.LittleEndian.Uint32(b.Scores[60:])), ScoreRow(e.o.Layout, b.Arrays[0][15*128:], true); got != want {
			t.Errorf("launch %d: got score %v, want %v", n, got, want)
		}
	}
	t.Logf("late by %v on average", late/50)
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{}, {Layout: testLayout(t)}, {Layout: testLayout(t), Depth: 1, Row: -1}, {Layout: testLayout(t), Depth: 1, Transfer: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}
