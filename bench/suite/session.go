package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/bench/report"
)

const (
	// parityTime is how long each size is asked for before anything is measured, by few callers: some hundred replies at least, and
	// one on a server that takes seconds.
	parityTime    = 500 * time.Millisecond
	parityCallers = 2
	parityDrain   = 2 * time.Minute

	// memoryTime is how long the load is at most under which memory is read.
	memoryTime = 2 * time.Second

	drain = 20 * time.Second
)

// session starts a server and measures what is missing. What goes wrong ends the arm.
func (s *suite) session(ctx context.Context, x session) {
	defer func() { s.clock.past++ }()
	if ctx.Err() != nil || s.failed[x.v.name] != nil {
		s.clock.done += len(x.tasks)
		return
	}
	pending := s.pending(x)
	s.clock.done += len(x.tasks) - len(pending)
	if len(pending) == 0 {
		return
	}
	began := time.Now()
	server, err := launch.Start(ctx, s.launch(x.v))
	if err != nil {
		if ctx.Err() == nil {
			s.end(x.v.arm, report.Failed, err)
		}
		return
	}
	s.clock.starts++
	s.clock.starting += time.Since(began)
	err = s.attend(ctx, server, x, pending)
	stopping := time.Now()
	stopped := server.Stop()
	s.clock.starting += time.Since(stopping)
	if x.v.kind == nothing {
		stopped = nil // it is killed: it has nothing to drain
	}
	var wrong *parityError
	switch err := errors.Join(err, stopped); {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &wrong):
		s.end(x.v.arm, report.Wrong, err)
	default:
		s.end(x.v.arm, report.Failed, err)
	}
}

// pending lists what has no result. Open loops whose peak is not known yet are pending as well.
func (s *suite) pending(x session) []task {
	var list []task
	for _, t := range x.tasks {
		if !s.has(x.v, t, s.read(x.v, t.rows, x.repeat, x.sweep)) {
			list = append(list, t)
		}
	}
	return list
}

// attend is what happens while the server runs.
func (s *suite) attend(ctx context.Context, server *launch.Server, x session, tasks []task) (err error) {
	if err := s.parity(ctx, server, x, tasks); err != nil {
		return err
	}
	m, err := monitor.Start(server.PID, monitor.Interval)
	if err != nil {
		return err
	}
	defer func() {
		file := fmt.Sprintf("%s.r%d.%s.monitor.json", x.v.label(), x.repeat, phase(x, tasks))
		report := m.Stop()
		err = errors.Join(err, load.WriteJSON(filepath.Join(s.o.Results(), x.v.name, file), report))
	}()
	memory := s.memory(ctx, m, server, x, "start", nil)
	for _, t := range tasks {
		if err := s.point(ctx, server, m, x, t); err != nil {
			return err
		}
	}
	if !x.memory {
		return nil
	}
	memory = append(memory, s.memory(ctx, m, server, x, "peak", &tasks[len(tasks)-1])...)
	memory = append(memory, s.memory(ctx, m, server, x, "end", nil)...)
	rows := tasks[0].rows
	f := s.read(x.v, rows, x.repeat, x.sweep)
	f.Memory, f.Sizes = memory, sizesOf(server, x.v)
	return s.write(x.v, rows, f)
}

func phase(x session, tasks []task) string {
	switch {
	case x.sweep:
		return "sweep"
	case tasks[0].callers > 0:
		return "closed"
	}
	return "open"
}

// parityError is an arm that answers wrongly.
type parityError struct{ error }

// parity compares answers with the reference before anything is measured (I1).
func (s *suite) parity(ctx context.Context, server *launch.Server, x session, tasks []task) error {
	if x.v.kind == nothing {
		return nil
	}
	var sizes []int
	for _, t := range tasks {
		if !slices.Contains(sizes, t.rows) {
			sizes = append(sizes, t.rows)
		}
	}
	for _, rows := range sizes {
		o := s.load(server, x.v, rows)
		o.Callers, o.Connections, o.Duration, o.Drain = parityCallers, parityCallers, parityTime, parityDrain
		r, err := load.Run(ctx, o)
		if err != nil {
			return err
		}
		if r.Mismatches > 0 {
			return &parityError{fmt.Errorf("%d of %d replies to requests of %d examples were wrong: %s", r.Mismatches, r.Timed, rows, r.FirstMismatch)}
		}
		if r.OK == 0 || r.OK < r.Timed {
			why := "no reply"
			if len(r.Errors) > 0 {
				why = r.Errors[0].Code + " " + r.Errors[0].Reason + ": " + r.Errors[0].Text
			}
			return fmt.Errorf("check replies to requests of %d examples: %d of %d were answered: %s", rows, r.OK, r.Timed, why)
		}
	}
	return nil
}

// load is what all loads have in common.
func (s *suite) load(server *launch.Server, v *variant, rows int) load.Options {
	o := load.Default()
	o.Target, o.Requests, o.Connections, o.Threads = server.Target, s.bundles[v.rows].requests[rows], connections, len(s.o.ClientCPUs)
	o.Warmup, o.Duration, o.Drain = 0, s.o.Duration, drain
	return o
}

// point measures a task and keeps the result.
func (s *suite) point(ctx context.Context, server *launch.Server, m *monitor.Monitor, x session, t task) error {
	o := s.load(server, x.v, t.rows)
	o.Warmup, o.Seed, o.CPU, o.Verify = s.o.Warmup, uint64(x.repeat), m.CPU, x.v.kind != nothing
	if t.callers > 0 {
		o.Mode, o.Callers = load.Closed, t.callers
	} else {
		o.Mode, o.Rate = load.Poisson, s.rate(x.v, t)
		if o.Rate == 0 {
			s.clock.done++
			return nil // there is no peak: every closed loop lost requests, or rankd was not measured
		}
		if s.has(x.v, t, s.read(x.v, t.rows, x.repeat, x.sweep)) {
			s.clock.done++
			return nil
		}
	}
	r, err := load.Run(ctx, o)
	s.clock.done++
	if err != nil {
		return err
	}
	f := s.read(x.v, t.rows, x.repeat, x.sweep)
	r.Share = t.share
	f.Command = server.CommandLine
	f.Results = append(keep(f.Results, t), r)
	s.progress(x, t, r)
	if err := s.write(x.v, t.rows, f); err != nil {
		return err
	}
	if r.Mismatches > 0 {
		return &parityError{fmt.Errorf("%s, %s: %d replies were wrong: %s", r.Title(), load.PerRequest(t.rows), r.Mismatches, r.FirstMismatch)}
	}
	return nil
}

// keep leaves out an open loop at the same share of another peak.
func keep(list []*load.Result, t task) []*load.Result {
	if t.callers > 0 {
		return list
	}
	return slices.DeleteFunc(list, func(r *load.Result) bool { return r.Mode == load.Poisson && r.Share == t.share })
}

func (s *suite) progress(x session, t task, r *load.Result) {
	at := load.Callers(t.callers)
	if t.callers == 0 {
		at = fmt.Sprintf("%.0f requests/s", r.Rate)
	}
	what := fmt.Sprintf("repeat %d of %d", x.repeat, s.o.Repeats)
	if x.sweep {
		what = "sweep"
	}
	var notes []string
	if r.Client.Limited {
		notes = append(notes, "the client was the limit")
	}
	if lost := r.Timed - r.OK; lost > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d lost", lost, r.Timed))
	}
	note := ""
	if len(notes) > 0 {
		note = " (" + strings.Join(notes, ", ") + ")"
	}
	fmt.Fprintf(s.o.Progress, "[%d/%d] %s, %s, %s, %s: %.0f examples/s, p99 %.2f ms%s; about %v left\n", s.clock.done, max(s.clock.points, s.clock.done),
		x.v.title(), load.PerRequest(t.rows), at, what, r.ExampleRate, r.Latency.P99, note, s.clock.left().Round(time.Second))
}

// memory reads exact memory, under the load of a task if there is one (I6). A server of another user gives none.
func (s *suite) memory(ctx context.Context, m *monitor.Monitor, server *launch.Server, x session, at string, under *task) []monitor.Memory {
	if !x.memory {
		return nil
	}
	var list []monitor.Memory
	read := func() {
		if r, err := m.Memory(at); err == nil {
			list = append(list, r)
		}
	}
	if under == nil {
		read()
		return list
	}
	o := s.load(server, x.v, slices.Max(s.o.Sizes))
	o.Callers, o.Duration, o.Middle = slices.Max(s.o.Callers), min(memoryTime, s.o.Duration), read
	if _, err := load.Run(ctx, o); err != nil {
		fmt.Fprintf(s.o.Progress, "%s: read memory under load: %v\n", x.v.title(), err)
	}
	return list
}
