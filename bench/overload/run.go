package overload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rankd/bench/exam"
	"rankd/bench/gauges"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
)

// Options say what is overloaded.
type Options struct {
	// Start starts a server on the simulated accelerator with more flags.
	Start func(ctx context.Context, flags []string) (*launch.Server, error)
	// Load is what the loads have in common: connections, threads, duration.
	Load     load.Options
	Requests func(rows int) (*exam.Requests, error)
	Before   []Scenario          // that were whole in an interrupted run, and are not made again
	Done     func(f *File) error // is told after each scenario
	Progress func(text string)
}

const (
	sampleEvery = 100 * time.Millisecond
	lightRate   = 20 // requests a second afterwards
	lightTime   = 2 * time.Second
	recoverWait = 20 * time.Second
)

// plan is a scenario before it runs.
type plan struct {
	name, what string
	flags      []string
	rows       int
	rate       float64
	deadline   time.Duration
	readers    *ReaderOptions
}

// slowDevice are the flags of an accelerator that does some 10,000 rows a second, whatever the batches.
var slowDevice = []string{"--sim-call=1ms", "--sim-row=100us"}

const slowRows = 10_000 // a second

func with(base []string, more ...string) []string {
	return append(append([]string{}, base...), more...)
}

func plans() []plan {
	const rows = 16
	thrice := 3.0 * slowRows / rows
	return []plan{
		{
			name: "device, small queue", rows: rows, rate: thrice, flags: with(slowDevice, "--max-request-rows=1024", "--frontend-pending-rows=4096"),
			what: "Three times what the device does is offered, without deadlines; a frontend may have 4,096 rows waiting.",
		},
		{
			name: "device, small queue of the server", rows: rows, rate: thrice, flags: with(slowDevice, "--frontends=2", "--max-request-rows=1024", "--frontend-pending-rows=4096", "--server-pending-rows=2048"),
			what: "The same, and all frontends together may have 2,048 rows waiting.",
		},
		{
			name: "device, deadlines", rows: rows, rate: thrice, deadline: 200 * time.Millisecond, flags: slowDevice,
			what: "The same load with deadlines of 200 ms and the default queues.",
		},
		{
			name: "slow readers", rows: 1, rate: 500, readers: &ReaderOptions{Connections: 16, Open: 256, Takes: 20},
			what: "16 clients keep 256 calls open each and take 20 replies a second each, beside 500 ordinary requests a second.",
		},
		{
			name: "silent readers", rows: 1, rate: 500, readers: &ReaderOptions{Connections: 16, Open: 1024},
			what: "16 clients keep 1,024 calls open each and take no replies at all, beside 500 ordinary requests a second.",
		},
	}
}

// Run makes all scenarios; with an error the file has those that were whole.
func Run(ctx context.Context, o Options) (*File, error) {
	f := &File{Schema: load.Schema}
	for _, p := range plans() {
		if i := slices.IndexFunc(o.Before, func(s Scenario) bool { return s.Name == p.name }); i >= 0 {
			f.Scenarios = append(f.Scenarios, o.Before[i])
			continue
		}
		if o.Progress != nil {
			o.Progress(p.name + ": " + p.what)
		}
		s, err := o.scenario(ctx, p)
		if err != nil {
			return f, fmt.Errorf("overload server: %s: %w", p.name, err)
		}
		f.Scenarios = append(f.Scenarios, *s)
		if o.Done != nil {
			if err := o.Done(f); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

func (o *Options) scenario(ctx context.Context, p plan) (s *Scenario, err error) {
	requests, err := o.Requests(p.rows)
	if err != nil {
		return nil, err
	}
	server, err := o.Start(ctx, p.flags)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	m, err := monitor.Start(server.PID, monitor.Interval)
	if err != nil {
		return nil, err
	}
	defer m.Stop()
	w, err := gauges.Start(server.HTTP, server.PID, sampleEvery)
	if err != nil {
		return nil, err
	}
	s = &Scenario{Name: p.name, What: p.what, Flags: p.flags}
	memory := func(at string) {
		if r, err := m.Memory(at); err == nil {
			s.Memory = append(s.Memory, r)
		}
	}
	l := o.Load
	l.Target, l.Requests, l.Mode, l.Rate, l.Deadline, l.CPU = server.Target, requests, load.Fixed, p.rate, p.deadline, m.CPU
	memory("start")
	if err := o.press(ctx, s, l, p, func() { memory("peak") }); err != nil {
		w.Stop()
		return nil, err
	}
	s.After, err = recovery(ctx, l)
	memory("end")
	s.Samples, _ = w.Stop()
	s.Log = server.Warnings()
	if err != nil {
		return nil, err
	}
	return s, wrong(s)
}

// press makes the load, beside slow readers if there are any.
func (o *Options) press(ctx context.Context, s *Scenario, l load.Options, p plan, middle func()) (err error) {
	if p.readers == nil {
		l.Middle = middle
		s.Result, err = load.Run(ctx, l)
		return err
	}
	if s.Alone, err = load.Run(ctx, l); err != nil {
		return err
	}
	ro := *p.readers
	ro.Target, ro.Path, ro.Messages = l.Target, l.Requests.Set().Path(), l.Requests.Messages
	r, err := StartReaders(ctx, ro)
	if err != nil {
		return err
	}
	l.Middle = middle
	s.Result, err = load.Run(ctx, l)
	counts := r.Stop()
	s.Readers = &counts
	return err
}

// recovery is a light load, tried until nothing of it is lost or the time is over: what was queued has to be worked off first.
func recovery(ctx context.Context, l load.Options) (*load.Result, error) {
	l.Rate, l.Deadline, l.Duration, l.Warmup, l.Middle = lightRate, 0, lightTime, 0, nil
	for end := time.Now().Add(recoverWait); ; {
		r, err := load.Run(ctx, l)
		if err != nil || r.OK == r.Timed || time.Now().After(end) {
			return r, err
		}
	}
}

// wrong is an error if a reply was (I1).
func wrong(s *Scenario) error {
	for _, r := range []*load.Result{s.Alone, s.Result, s.After} {
		if r != nil && r.Mismatches > 0 {
			return fmt.Errorf("%d replies were wrong: %s", r.Mismatches, r.FirstMismatch)
		}
	}
	return nil
}
