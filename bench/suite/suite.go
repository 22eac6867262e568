package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/report"
)

// suite is a comparison.
type suite struct {
	o       Options
	python  string             // interpreter
	cpp     string             // server
	machine string             // what results depend on, see digest
	bundles map[string]*bundle // by the type of their rows
	sources map[kind]string    // digests of the servers' code

	state  report.Suite
	failed map[string]error // arms that ended
	clock  clock
}

func newSuite(o *Options) (*suite, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("compare servers: %w", err)
	}
	var err error
	for _, p := range []*string{&o.Source, &o.WorkDir, &o.CacheDir, &o.Rankd} {
		if *p, err = filepath.Abs(*p); err != nil {
			return nil, fmt.Errorf("compare servers: %w", err)
		}
	}
	s := &suite{o: *o, failed: map[string]error{}}
	s.cpp = filepath.Join(o.CacheDir, "cpp", "cpp_batch")
	if s.python = o.Python; s.python == "" {
		digest, err := DigestFiles(filepath.Join(o.Source, pythonDir, "requirements.txt"))
		if err != nil {
			return nil, err
		}
		s.python = filepath.Join(o.CacheDir, "python-"+o.packages()+"-"+digest, "bin", "python")
	}
	return s, nil
}

// Run makes the comparison, or what is left of it, and writes the report. It returns the report's path, also with most errors.
func Run(ctx context.Context, o Options) (string, error) {
	s, err := newSuite(&o)
	if err != nil {
		return "", err
	}
	if err := s.open(ctx); err != nil {
		return "", err
	}
	err = s.measure(ctx)
	if ctx.Err() != nil { // what the servers were stopped at is of no interest
		err = fmt.Errorf("compare servers: the same command goes on from here: %w", ctx.Err())
	}
	if none, _ := filepath.Glob(filepath.Join(o.Results(), "*", "*.json")); len(none) == 0 {
		if ctx.Err() != nil {
			return "", err
		}
		return "", errors.Join(err, errors.New("compare servers: nothing was measured"))
	}
	path, failed := report.Write(s.o.Results())
	return path, errors.Join(err, failed)
}

// open gets everything ready that does not change, and refuses a folder with other results before anything is written.
func (s *suite) open(ctx context.Context) error {
	var err error
	s.bundles = map[string]*bundle{}
	for _, rows := range s.o.rowTypes() {
		if s.bundles[rows], err = s.openBundle(ctx, rows); err != nil {
			return fmt.Errorf("compare servers: %w", err)
		}
	}
	if err := s.digestSources(); err != nil {
		return err
	}
	s.machine = machineName()
	if err := s.claim(true); err != nil {
		return err
	}
	return s.writeEnvironment(true)
}

// digestSources notes which code the servers have.
func (s *suite) digestSources() (err error) {
	s.sources = map[kind]string{}
	for k, paths := range map[kind][]string{
		product: {s.o.Rankd}, nothing: {s.o.Rankd}, cpp: {s.cpp},
		python: {filepath.Join(s.o.Source, pythonDir, "rankd_bench_py"), filepath.Join(s.o.Source, pythonDir, "requirements.txt")},
	} {
		if s.sources[k], err = DigestFiles(paths...); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Describe writes the description of the machine, and of what is measured, before trials of rankd alone; what a comparison has written
// stays.
func Describe(o Options) error {
	s, err := newSuite(&o)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.Results(), environmentName)); err == nil {
		return nil
	}
	if readState(o.Results()) == nil {
		s.state = report.Suite{Schema: load.Schema, Platform: o.Platform, IDs: o.IDs, Workload: cmp.Or(o.Workload, exam.Independent), MaxVocab: o.MaxVocab}
		s.save()
	}
	return s.writeEnvironment(false)
}

func (s *suite) writeEnvironment(servers bool) error {
	return os.WriteFile(filepath.Join(s.o.Results(), environmentName), []byte(s.environment(servers)), 0o644)
}

// measure goes through the plan: first the sweeps, then the closed loops, whose peaks set the rates of the open ones.
func (s *suite) measure(ctx context.Context) error {
	s.describe()
	arms := s.runnable()
	s.clock.begin(s.total(arms), s.o.Warmup+s.o.Duration)
	for _, list := range s.sweeps(arms) {
		s.session(ctx, list)
	}
	best := s.best(arms)
	separate := s.o.Repeats > 1 // a single repeat needs no second start of each server
	for r := 1; r <= s.o.Repeats; r++ {
		for _, x := range s.rotate(best, r) {
			s.session(ctx, s.closed(x, r, !separate))
		}
	}
	for r := 1; r <= s.o.Repeats; r++ {
		if separate {
			for _, x := range s.rotate(best, r) {
				s.session(ctx, s.open80(x, r))
			}
		}
		s.session(ctx, s.floor(r))
	}
	var errs []error
	for _, name := range sortedKeys(s.failed) {
		errs = append(errs, fmt.Errorf("measure %s: %w", name, s.failed[name]))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// rotate lets every repeat begin with another arm.
func (s *suite) rotate(list []assignment, repeat int) []assignment {
	if len(list) == 0 {
		return nil
	}
	n := (repeat - 1) * len(list) / s.o.Repeats
	return append(slices.Clone(list[n:]), list[:n]...)
}

// runnable lists the arms that can run, and notes why others cannot.
func (s *suite) runnable() []arm {
	var list []arm
	for _, a := range s.o.chosen() {
		if why := s.missing(a); why != "" {
			s.note(a, report.LeftOut, why)
			continue
		}
		list = append(list, a)
	}
	return list
}

// note keeps what became of an arm and tells it.
func (s *suite) note(a arm, state, why string) {
	if a.kind == nothing {
		return
	}
	for i := range s.state.Arms {
		if x := &s.state.Arms[i]; x.Name == a.name {
			x.State, x.Why = state, why
		}
	}
	if why != "" {
		fmt.Fprintf(s.o.Progress, "%s: %s: %s\n", a.name, state, why)
	}
	s.save()
}

// end stops an arm's measurement for good.
func (s *suite) end(a arm, state string, err error) {
	s.failed[a.name] = err
	s.note(a, state, err.Error())
}

// describe starts the description that goes into the report.
func (s *suite) describe() {
	set := s.bundles[""].set
	s.state = report.Suite{
		Schema: load.Schema, Platform: s.o.Platform, IDs: s.o.IDs, Workload: set.Options().Workload, WorkloadIs: set.Describe(), MaxVocab: s.o.MaxVocab, Connections: connections,
		Duration: s.o.Duration.Seconds(), Warmup: s.o.Warmup.Seconds(), Repeats: s.o.Repeats,
	}
	old := readState(s.o.Results())
	if old == nil {
		old = &report.Suite{}
	}
	s.state.Repeats = max(s.state.Repeats, old.Repeats)
	chosen := s.o.chosen()
	for _, a := range arms { // those of an earlier run stay (I7)
		i := slices.IndexFunc(old.Arms, func(x report.SuiteArm) bool { return x.Name == a.name })
		switch {
		case slices.Contains(chosen, a):
			s.state.Arms = append(s.state.Arms, report.SuiteArm{Name: a.name, What: a.what, State: report.Measured})
		case i >= 0:
			s.state.Arms = append(s.state.Arms, old.Arms[i])
		}
	}
	s.save()
}

func (s *suite) save() {
	if err := load.WriteJSON(filepath.Join(s.o.Results(), stateName), s.state); err != nil {
		fmt.Fprintln(s.o.Progress, err)
	}
}

// clock tells how much is left.
type clock struct {
	points   int // of the whole plan
	done     int
	each     time.Duration
	starts   int
	starting time.Duration // time that starts and stops have taken
	sessions int           // of the whole plan
	past     int
}

func (c *clock) begin(total [2]int, each time.Duration) {
	*c = clock{sessions: total[0], points: total[1], each: each}
}

// left estimates the rest of the plan from its points and from what starts have taken so far.
func (c *clock) left() time.Duration {
	start := 5 * time.Second
	if c.starts > 0 {
		start = c.starting / time.Duration(c.starts)
	}
	return time.Duration(max(0, c.points-c.done))*c.each + time.Duration(max(0, c.sessions-c.past))*start
}
