package ablation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
)

// Options say how settings are measured.
type Options struct {
	Tables []*Table // of an earlier run those that were measured in part: whole rounds of a setting are not made again
	Rounds int
	// Start starts a server with a setting.
	Start    func(ctx context.Context, s *Setting) (*launch.Server, error)
	Load     load.Options // what the loads have in common
	Requests func(rows int) (*exam.Requests, error)
	// Done is told after each server that was measured; what it is given goes on changing.
	Done     func(f *File) error
	Progress func(text string)
}

// Run measures all settings. With an error it returns what was measured before.
func Run(ctx context.Context, o Options) (*File, error) {
	f := &File{Schema: load.Schema, Tables: o.Tables, NotDone: NotDone()}
	for _, t := range f.Tables {
		for round := range o.Rounds {
			for i := range t.Settings {
				s := &t.Settings[(i+round)%len(t.Settings)] // I1
				if s.Error != "" || len(s.Results) > round*len(t.Loads) {
					continue
				}
				if o.Progress != nil {
					o.Progress(fmt.Sprintf("%s: %s, round %d of %d", t.Name, s.Name, round+1, o.Rounds))
				}
				if err := o.measure(ctx, t, s, round); err != nil {
					if ctx.Err() != nil {
						return f, ctx.Err()
					}
					var wrong *wrongReplies
					if errors.As(err, &wrong) {
						return f, fmt.Errorf("measure %s, %s: %w", t.Name, s.Name, err)
					}
					s.Error = err.Error()
				}
				if err := o.Done(f); err != nil {
					return f, err
				}
			}
		}
	}
	return f, nil
}

// Resume gives tables what an interrupted run has measured of the same settings. Settings that did not run are tried again.
func Resume(list []*Table, before *File) {
	for _, t := range list {
		for _, old := range before.Tables {
			if old.Name != t.Name || !slices.Equal(old.Loads, t.Loads) {
				continue
			}
			for i := range t.Settings {
				s := &t.Settings[i]
				n := slices.IndexFunc(old.Settings, func(x Setting) bool { return x.Name == s.Name && slices.Equal(x.Flags, s.Flags) && x.Small == s.Small })
				if n >= 0 {
					s.Pages, s.MemoryMiB, s.Results = old.Settings[n].Pages, old.Settings[n].MemoryMiB, old.Settings[n].Results
				}
			}
		}
	}
}

type wrongReplies struct{ error }

func (o *Options) measure(ctx context.Context, t *Table, s *Setting, round int) (err error) {
	server, err := o.Start(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	status, err := server.Status(ctx)
	if err != nil {
		return err
	}
	s.Pages = status.Tables.Pages // I2
	m, err := monitor.Start(server.PID, monitor.Interval)
	if err != nil {
		return err
	}
	defer m.Stop()
	var results []*load.Result
	for _, point := range t.Loads {
		l := o.Load
		l.Target, l.Mode, l.Callers, l.Seed, l.CPU = server.Target, load.Closed, point.Callers, uint64(round+1), m.CPU
		if l.Requests, err = o.Requests(point.Rows); err != nil {
			return err
		}
		r, err := load.Run(ctx, l)
		if err != nil {
			return err
		}
		if r.Mismatches > 0 {
			return &wrongReplies{fmt.Errorf("%d replies were wrong: %s", r.Mismatches, r.FirstMismatch)}
		}
		r.Seconds = nil // a line in a table needs none
		results = append(results, r)
	}
	s.Results = append(s.Results, results...) // a round whole or not at all
	if r, err := m.Memory("end"); err == nil {
		s.MemoryMiB = max(s.MemoryMiB, float64(r.Bytes())/(1<<20))
	}
	return nil
}
