package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rankd/bench/monitor"
	"rankd/internal/h2wire"
)

// Run makes the load and returns what came of it. The error is about the run itself: options, a target that cannot be reached, ctx.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("make load: %w", err)
	}
	workers, seconds, err := newWorkers(ctx, &o)
	if err == nil {
		err = prepare(ctx, workers)
	}
	var result *Result
	if err == nil {
		result, err = measure(ctx, &o, workers)
	}
	for _, w := range workers {
		err = errors.Join(err, w.close())
	}
	if err != nil {
		return nil, fmt.Errorf("make load on %s: %w", o.Target, err)
	}
	result.Seconds = seconds.all()
	return result, nil
}

// newWorkers deals connections, callers and the schedule out.
func newWorkers(ctx context.Context, o *Options) ([]*worker, *seconds, error) {
	all := &seconds{open: map[int]*second{}}
	n := o.workers()
	method := &h2wire.Method{Path: o.Requests.Set().Path()}
	var list []*worker
	for i := range n {
		loop, err := h2wire.NewLoop()
		if err != nil {
			return list, all, err
		}
		w := &worker{
			o: o, loop: loop, method: method, warm: o.Warmup, end: o.Warmup + o.Duration,
			tally: newTally(), second: second{latency: newHistogram()}, seconds: all,
			request: i * len(o.Requests.Messages) / n,
		}
		w.pool.open(ctx, o.targets(), loop, share(o.Connections, i, n), w.resume)
		if o.Mode == Closed {
			w.callers = share(o.Callers, i, n)
		} else {
			w.schedule = newSchedule(o.Mode, o.Rate, i, n, o.Seed)
		}
		list = append(list, w)
	}
	return list, all, nil
}

// share deals total out to n, the first ones getting one more.
func share(total, i, n int) int { return total/n + min(1, max(0, total%n-i)) }

// resume lets a caller go on that had no connection.
func (w *worker) resume(i uint32) {
	if now := w.now(); !w.over && now < w.end {
		w.begin(i, now)
	}
}

func prepare(ctx context.Context, workers []*worker) error {
	var g errgroup.Group
	for _, w := range workers {
		g.Go(func() error { return w.prepare(ctx) })
	}
	return g.Wait()
}

// readings are the CPU seconds at one moment.
type readings struct {
	at             time.Time
	client, server float64
	err            error // of the server
}

func read(o *Options) readings {
	r := readings{at: time.Now(), client: monitor.Usage()}
	if o.CPU != nil {
		r.server, r.err = o.CPU()
	}
	return r
}

// measure runs the workers and takes readings at both ends of the window.
func measure(ctx context.Context, o *Options, workers []*worker) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	base := time.Now()
	result := describe(o)
	result.Began = base.Add(o.Warmup).Format(time.RFC3339Nano)
	var g errgroup.Group
	for _, w := range workers {
		w.base = base
		g.Go(func() error {
			err := w.run(ctx)
			if err != nil {
				cancel()
			}
			return err
		})
	}
	var from, to readings
	var watch sync.WaitGroup
	watch.Go(func() {
		if !sleep(ctx, base.Add(o.Warmup)) {
			return
		}
		from = read(o)
		if o.Middle != nil && sleep(ctx, base.Add(o.Warmup+o.Duration/2)) {
			o.Middle()
		}
		if sleep(ctx, base.Add(o.Warmup+o.Duration)) {
			to = read(o)
		}
	})
	err := g.Wait()
	watch.Wait()
	if err != nil {
		return nil, err
	}
	result.fill(o, workers, from, to)
	return result, nil
}

// sleep waits for a moment; it reports false if ctx ends before.
func sleep(ctx context.Context, until time.Time) bool {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fill computes the result from what the workers have counted.
func (r *Result) fill(o *Options, workers []*worker, from, to readings) {
	sum := newTally()
	var ended uint64
	busiest, alive := 0.0, false
	for _, w := range workers {
		sum.add(&w.tally)
		ended += w.ended
		r.NoReply += w.noReply
		r.Reconnects += w.pool.reconnects
		busiest, alive = max(busiest, w.busy), alive || w.alive
	}
	r.Timed, r.OK, r.Failed, r.Mismatches = sum.timed, sum.ok, sum.failed, sum.mismatches
	r.Lost = !alive && r.Failed+r.NoReply > 0 // a connection that only ended its age loses nothing
	r.RequestRate = float64(sum.inWindow) / o.Duration.Seconds()
	r.ExampleRate = r.RequestRate * float64(r.Rows)
	r.Latency = latencyOf(sum.latency)
	r.MaxDifference, r.FirstMismatch, r.Errors = sum.difference, sum.mismatch, sum.list()

	wall := to.at.Sub(from.at).Seconds()
	c := &r.Client
	c.CPU, c.Processors, c.Threads = to.client-from.client, Processors(), len(workers)
	c.Share, c.Busiest = c.CPU/(wall*float64(c.Processors)), busiest
	c.PerCall = perCall(c.CPU, ended)
	c.Lag = latencyOf(sum.lag)
	c.Limited = max(c.Share, c.Busiest) > LimitedShare
	if o.CPU != nil && from.err == nil && to.err == nil {
		s := &Server{CPU: to.server - from.server}
		s.PerCall = perCall(s.CPU, ended)
		if examples := float64(sum.inWindow) * float64(r.Rows); examples > 0 && s.CPU > 0 {
			s.PerThousand, s.PerCore = 1000*s.CPU/examples, examples/s.CPU
		}
		r.Server = s
	}
}

// perCall is CPU time in microseconds.
func perCall(cpu float64, calls uint64) float64 {
	if calls == 0 {
		return 0
	}
	return 1e6 * cpu / float64(calls)
}
