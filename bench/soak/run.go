package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rankd/bench/gauges"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
)

// Options say what is loaded, and for how long.
type Options struct {
	Server *launch.Server
	Flags  []string // that it was started with, for the record
	Load   load.Options
	Time   time.Duration
	// Rate is in requests a second; 0: half of what a closed loop does.
	Rate     float64
	Progress func(text string)
}

const (
	sampleEvery  = time.Second
	probeTime    = 3 * time.Second
	probeCallers = 64
)

// Run loads the server and fits lines.
func Run(ctx context.Context, o Options) (*File, error) {
	m, err := monitor.Start(o.Server.PID, monitor.Interval)
	if err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	defer m.Stop()
	l := o.Load
	l.Target, l.CPU = o.Server.Target, m.CPU
	if o.Rate == 0 {
		p := l
		p.Mode, p.Callers, p.Duration = load.Closed, probeCallers, probeTime
		r, err := load.Run(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("soak server: %w", err)
		}
		o.Rate = r.RequestRate / 2
	}
	if o.Progress != nil {
		o.Progress(fmt.Sprintf("%.0f requests/s for %v", o.Rate, o.Time))
	}
	f := &File{Schema: load.Schema, Minutes: o.Time.Minutes(), Flags: o.Flags}
	w, err := gauges.Start(o.Server.HTTP, o.Server.PID, sampleEvery)
	if err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	memory := func(at string) {
		if r, err := m.Memory(at); err == nil {
			f.Memory = append(f.Memory, r)
		}
	}
	memory("start")
	l.Mode, l.Rate, l.Duration = load.Poisson, o.Rate, o.Time
	f.Result, err = load.Run(ctx, l)
	f.Samples, f.Missed = w.Stop()
	memory("end")
	if err != nil {
		return nil, fmt.Errorf("soak server: %w", err)
	}
	f.Analyse()
	if f.Result.Mismatches > 0 {
		err = errors.Join(err, fmt.Errorf("soak server: %d replies were wrong: %s", f.Result.Mismatches, f.Result.FirstMismatch))
	}
	return f, err
}
