package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"rankd/deviceowner/executor"
	"rankd/internal/faults"
)

var (
	// ErrNotCompiled is wrapped by Launch for a bucket that was not compiled.
	ErrNotCompiled = errors.New("bucket is not compiled")
	// ErrClosed is wrapped by calls after Close.
	ErrClosed = errors.New("executor is closed")
	// ErrFault is wrapped by the errors of injected faults.
	ErrFault = errors.New("injected fault")
)

// Options say how the simulated device behaves. Default gives the usual values.
type Options struct {
	Layout   *Layout
	Call     time.Duration // device time a launch
	Row      time.Duration // device time a row that carries a request
	Transfer time.Duration // time on the link a row that carries a request; 0: Call and Row contain it
	Depth    int           // launches in flight, at least 1
	Full     bool          // the score covers every byte of the slots (verify full)
	Faults   Faults
	Clock    Clock      // nil: a timer of this machine
	Trace    func(Span) // told where each launch lies, from within Launch; nil: nobody is
}

// Span is where a launch lies on the timelines.
type Span struct {
	Number        uint64        // of the launch, from 1
	Rows          int           // that carry requests
	Sent, Arrived time.Duration // its rows are on the link in between
	Began, Ended  time.Duration // it executes in between
}

// Default returns the usual device: 350 µs a launch, 1500 ns a row, two launches in flight.
func Default(l *Layout) Options {
	return Options{Layout: l, Call: 350 * time.Microsecond, Row: 1500 * time.Nanosecond, Depth: 2}
}

// Executor is the simulated device. It implements executor.Executor.
type Executor struct {
	o     Options
	clock Clock

	work    chan job
	closing chan struct{}
	stopped sync.WaitGroup

	mu       sync.Mutex // guards what follows
	buckets  map[int]bool
	last     Span // of the last launch
	inFlight int
	launches uint64
	compiles uint64
	late     uint64
	closed   bool
}

var _ executor.Executor = (*Executor)(nil)

// job is a launch on its way.
type job struct {
	batch  *executor.Batch
	done   func(error)
	end    time.Duration
	number uint64 // from 1
}

// New starts the simulated device.
func New(o Options) (*Executor, error) {
	if o.Layout == nil || o.Call < 0 || o.Row < 0 || o.Transfer < 0 || o.Depth < 1 {
		return nil, fmt.Errorf("open simulated device: got layout %v, %v a call, %v and %v on the link a row, depth %d; want a layout, no negative time, depth at least 1",
			o.Layout != nil, o.Call, o.Row, o.Transfer, o.Depth)
	}
	if o.Clock == nil {
		c, err := newTimerClock()
		if err != nil {
			return nil, fmt.Errorf("open simulated device: %w", err)
		}
		o.Clock = c
	}
	e := &Executor{o: o, clock: o.Clock, work: make(chan job, o.Depth), closing: make(chan struct{}), buckets: map[int]bool{}}
	e.stopped.Go(e.run)
	return e, nil
}

// Name returns "sim (simulated accelerator)".
func (e *Executor) Name() string { return "sim (simulated accelerator)" }

// Simulated returns true.
func (e *Executor) Simulated() bool { return true }

// Depth returns the number of launches that may be in flight.
func (e *Executor) Depth() int { return e.o.Depth }

// Compiles returns how many buckets were compiled, and how many of those after the first Launch, which should be none.
func (e *Executor) Compiles() (total, late uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.compiles, e.late
}

// Compile notes the bucket. There is nothing to compile.
func (e *Executor) Compile(ctx context.Context, bucket int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compile bucket %d: %w", bucket, err)
	}
	if bucket <= 0 {
		return fmt.Errorf("compile bucket: got %d rows, want at least 1", bucket)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("compile bucket %d: %w", bucket, ErrClosed)
	}
	if e.buckets[bucket] {
		return nil
	}
	e.buckets[bucket] = true
	e.compiles++
	if e.launches > 0 {
		e.late++
	}
	return nil
}

// Launch puts the batch on the timelines. It does not block.
func (e *Executor) Launch(b *executor.Batch, done func(error)) error {
	if err := e.checkBatch(b); err != nil {
		return fmt.Errorf("launch batch: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("launch batch: %w", ErrClosed)
	}
	if !e.buckets[b.Bucket] {
		return fmt.Errorf("launch batch of %d rows: %w", b.Bucket, ErrNotCompiled)
	}
	if e.inFlight == e.o.Depth {
		return fmt.Errorf("launch batch: got more than %d in flight", e.o.Depth)
	}
	e.launches++
	e.inFlight++
	e.last = e.place(b.Rows)
	if e.o.Trace != nil {
		e.o.Trace(e.last)
	}
	e.work <- job{b, done, e.last.Ended, e.launches} // has room for Depth
	return nil
}

// place finds the next launch's place behind the last one: on the link as soon as that is free, and on the device when its
// rows have arrived and the device is free.
func (e *Executor) place(rows int) Span {
	s := Span{Number: e.launches, Rows: rows, Sent: max(e.clock.Now(), e.last.Arrived)}
	s.Arrived = s.Sent + time.Duration(rows)*e.o.Transfer
	s.Began = max(s.Arrived, e.last.Ended)
	s.Ended = s.Began + e.o.Call + time.Duration(rows)*e.o.Row + e.o.Faults.Delay
	return s
}

func (e *Executor) checkBatch(b *executor.Batch) error {
	if b.Rows < 1 || b.Rows > b.Bucket {
		return fmt.Errorf("got %d rows, want 1 to %d", b.Rows, b.Bucket)
	}
	if len(b.Arrays) != len(e.o.Layout.strides) {
		return fmt.Errorf("got %d arrays, want %d", len(b.Arrays), len(e.o.Layout.strides))
	}
	for i, stride := range e.o.Layout.strides {
		if got, want := len(b.Arrays[i]), b.Bucket*stride; got != want {
			return fmt.Errorf("got %d bytes of array %d, want %d", got, i, want)
		}
	}
	if got, want := len(b.Scores), b.Bucket*4*e.o.Layout.columns; got != want {
		return fmt.Errorf("got %d bytes for scores, want %d", got, want)
	}
	return nil
}

// run is the device: one launch after the other.
func (e *Executor) run() {
	for j := range e.work {
		err := e.execute(&j)
		e.clock.Wait(j.end)
		e.mu.Lock()
		e.inFlight-- // before done, which may launch the next one
		e.mu.Unlock()
		j.done(err)
	}
}

// execute computes the scores, unless a fault wants something else.
func (e *Executor) execute(j *job) error {
	f := &e.o.Faults
	switch {
	case j.number == f.HangAt:
		return e.hang()
	case f.DeadAt != 0 && j.number >= f.DeadAt:
		return fmt.Errorf("run batch: %w: %w", ErrFault, executor.ErrDead)
	case j.number == f.FailAt:
		return fmt.Errorf("run batch: %w", ErrFault)
	case f.poisoned(e.o.Layout, j.batch.Arrays, j.batch.Rows):
		switch f.PoisonAction {
		case PoisonCrash:
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // the process ends here
		case PoisonHang:
			return e.hang()
		}
		return fmt.Errorf("run batch: poisoned row: %w", ErrFault)
	}
	e.score(j.batch)
	faults.Hit("owner.executing") // the scores are written, the launch has not ended
	return nil
}

// hang returns when the executor is closed.
func (e *Executor) hang() error {
	<-e.closing
	return fmt.Errorf("run batch: hung: %w: %w", ErrFault, ErrClosed)
}

// score writes the scores of the batch's rows.
func (e *Executor) score(b *executor.Batch) {
	l := e.o.Layout
	at := 0
	for r := range b.Rows {
		base := l.base(b.Arrays, r, e.o.Full)
		for c := range l.columns {
			binary.LittleEndian.PutUint32(b.Scores[at:], math.Float32bits(l.column(base, c)))
			at += 4
		}
	}
}

// Close waits for the launches in flight and stops the device. It may be called twice.
func (e *Executor) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.closing)
	close(e.work)
	e.mu.Unlock()
	e.stopped.Wait()
	if err := e.clock.Close(); err != nil {
		return fmt.Errorf("close simulated device: %w", err)
	}
	return nil
}
