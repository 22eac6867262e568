package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rankd/bench/capacity"
	"rankd/bench/exam"
	"rankd/bench/load"
)

// Arm is everything that was measured of one server.
type Arm struct {
	Name       string
	Results    []*load.Result // without those of a sweep
	Points     []*Point
	Sweep      []*Point
	MemoryMiB  float64     // the largest reading; 0: none
	Sizes      *load.Sizes // that it says of itself; nil: nothing
	Mismatches uint64
	First      string // the first mismatch
}

// Point is the repeats of one load.
type Point struct {
	Variant string // of the arm, if it has several
	Mode    string
	Load    float64 // callers or requests a second
	Share   float64 // of the arm's peak, where the load was chosen so
	Rows    int
	Repeats []*load.Result
}

// Results are those of a directory.
type Results struct {
	Suite     *Suite // nil: they were not made by a comparison
	Arms      []*Arm
	Null      *Arm // the server that does nothing; nil: not measured
	Capacity  []capacity.Server
	Price     float64
	Env       string
	Simulated bool
	Workload  string // of all results (I4)
	trials

	files     []armRuns // what Arms and Null are made of
	published bool      // they come from runs.json
}

// Collect reads the results in a directory.
func Collect(dir string) (*Results, error) {
	r := &Results{}
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("collect results: %w", err)
	}
	var errs []error
	for _, f := range folders {
		path := filepath.Join(dir, f.Name())
		switch {
		case f.IsDir():
			errs = append(errs, r.collectArm(path, f.Name()))
		case strings.HasPrefix(f.Name(), "capacity") && strings.HasSuffix(f.Name(), ".json"):
			errs = append(errs, r.collectCapacity(path))
		}
	}
	r.Suite, err = readSuite(dir)
	errs = append(errs, err, r.trials.collect(dir))
	if errors.Join(errs...) == nil && r.empty() {
		errs = append(errs, r.readRuns(dir))
	}
	if r.Suite != nil {
		errs = append(errs, r.sameWorkload(r.Suite.Workload))
	}
	for _, x := range r.trials.results() {
		errs = append(errs, r.sameWorkload(x.Workload))
	}
	env, err := os.ReadFile(filepath.Join(dir, "env.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	r.Env = strings.TrimSpace(string(env))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("collect results: %w", err)
	}
	if len(r.Arms) == 0 && len(r.Capacity) == 0 && r.trials.empty() {
		return nil, fmt.Errorf("collect results: got none in %s, want <arm>/*.json as bench load writes them, or %s", dir, RunsName)
	}
	r.Simulated = r.Simulated || r.trials.simulated()
	slices.SortFunc(r.Arms, func(a, b *Arm) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
}

// empty reports whether there are no results at all.
func (r *Results) empty() bool {
	return len(r.Arms) == 0 && r.Null == nil && len(r.Capacity) == 0 && r.trials.empty()
}

// sameWorkload refuses results of a workload beside those of another (I4). Older results name none: they are of independent examples.
func (r *Results) sameWorkload(name string) error {
	name = cmp.Or(name, exam.Independent)
	if r.Workload = cmp.Or(r.Workload, name); r.Workload != name {
		return fmt.Errorf("got results of the workloads %s and %s, want one: each belongs into a directory of its own (--name)", r.Workload, name)
	}
	return nil
}

// sharedUser reports whether the examples of a request had one user.
func (r *Results) sharedUser() bool { return r.Workload == exam.SharedUser }

// marked says in a title what kind of results they are (I3, I4).
func (r *Results) marked(text string) string {
	var marks []string
	if r.Suite.brief() {
		marks = append(marks, "smoke run")
	}
	if r.sharedUser() {
		marks = append(marks, exam.SharedUser)
	}
	if r.Simulated {
		marks = append(marks, "simulated accelerator")
	}
	if len(marks) == 0 {
		return text
	}
	return text + " (" + strings.Join(marks, ", ") + ")"
}

// rank sorts rankd and its variants first, the Python servers next.
func rank(name string) int {
	switch {
	case name == product:
		return 0
	case strings.HasPrefix(name, product):
		return 1
	case isPython(name):
		return 2
	}
	return 3
}

const (
	product = "rankd"
	narrow  = "rankd-int8" // with tables of int8
	null    = "null"       // a server that does nothing
)

func isPython(name string) bool { return strings.HasPrefix(name, "py") }

func (r *Results) collectArm(dir, name string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	var files []*load.File
	for _, path := range paths {
		if strings.HasSuffix(path, ".monitor.json") {
			continue
		}
		f, err := load.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return r.gather(name, files)
}

// gather makes an arm of its files, unless they have no runs.
func (r *Results) gather(name string, files []*load.File) error {
	arm := &Arm{Name: name}
	var points, sweep pointsOf
	for _, f := range files {
		arm.take(f)
		if f.Sweep {
			sweep.add(f)
			continue
		}
		points.add(f)
		arm.Results = append(arm.Results, f.Results...)
	}
	arm.Points, arm.Sweep = points.sorted(), sweep.sorted()
	if len(arm.Points) == 0 && len(arm.Sweep) == 0 {
		return nil
	}
	for _, x := range arm.Results {
		if err := r.sameWorkload(x.Workload); err != nil {
			return fmt.Errorf("read results of %s: %w", name, err)
		}
		r.Simulated = r.Simulated || x.Simulated && name != null
	}
	r.files = append(r.files, armRuns{name, files})
	if name == null {
		r.Null = arm
	} else {
		r.Arms = append(r.Arms, arm)
	}
	return nil
}

// take notes what a file says beyond its points.
func (a *Arm) take(f *load.File) {
	for _, m := range f.Memory {
		a.MemoryMiB = max(a.MemoryMiB, float64(m.Bytes())/(1<<20))
	}
	a.Sizes = cmp.Or(a.Sizes, f.Sizes)
	for _, x := range f.Results {
		a.Mismatches += x.Mismatches
		a.First = cmp.Or(a.First, x.FirstMismatch)
	}
}

func (r *Results) collectCapacity(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var f capacity.File
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if f.Schema != load.Schema {
		return fmt.Errorf("read %s: got schema %d, want %d", path, f.Schema, load.Schema)
	}
	if err := r.takeCapacity(&f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// takeCapacity takes the capacities of a file as its points show them.
func (r *Results) takeCapacity(f *capacity.File) error {
	for _, s := range f.Servers {
		repeats := 0
		for _, p := range s.Points {
			for _, x := range p.Results {
				r.Simulated = r.Simulated || x.Simulated
				if err := r.sameWorkload(x.Workload); err != nil {
					return err
				}
			}
			repeats = max(repeats, judged(p.Results))
		}
		for i, c := range s.Capacities {
			if len(s.Points) > 0 { // what the points say, also those of searches that ended early
				s.Capacities[i] = capacity.Best(s.Points, c.Objective, repeats)
			}
		}
	}
	r.Capacity, r.Price = append(r.Capacity, f.Servers...), max(r.Price, f.PricePerHour)
	return nil
}

// judged counts the runs that say something about the server.
func judged(list []*load.Result) (n int) {
	for _, x := range list {
		if !x.Client.Limited {
			n++
		}
	}
	return n
}

// pointsOf gathers the repeats of each load.
type pointsOf struct{ list []*Point }

func (l *pointsOf) add(f *load.File) {
	for _, x := range f.Results {
		n := Point{Variant: f.Variant, Mode: x.Mode, Load: max(float64(x.Callers), x.Rate), Share: x.Share, Rows: x.Rows}
		i := slices.IndexFunc(l.list, func(p *Point) bool {
			return p.Variant == n.Variant && p.Mode == n.Mode && p.Load == n.Load && p.Rows == n.Rows
		})
		if i < 0 {
			i = len(l.list)
			l.list = append(l.list, &n)
		}
		l.list[i].Repeats = append(l.list[i].Repeats, x)
	}
}

func (l *pointsOf) sorted() []*Point {
	slices.SortFunc(l.list, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Variant, b.Variant), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Load, b.Load))
	})
	return l.list
}

// median is that of a figure over the repeats.
func (p *Point) median(of func(*load.Result) float64) float64 {
	return load.MedianOf(p.Repeats, of)
}

// Examples is the median of examples a second.
func (p *Point) Examples() float64 {
	return p.median(func(x *load.Result) float64 { return x.ExampleRate })
}

// P50 and P99 are medians of latencies in milliseconds.
func (p *Point) P50() float64 { return p.median(func(x *load.Result) float64 { return x.Latency.P50 }) }

// P99 is described at P50.
func (p *Point) P99() float64 { return p.median(func(x *load.Result) float64 { return x.Latency.P99 }) }

// PerThousand is the median of the server's CPU seconds for 1,000 examples; 0: not measured.
func (p *Point) PerThousand() float64 {
	return p.median(func(x *load.Result) float64 {
		if x.Server == nil {
			return 0
		}
		return x.Server.PerThousand
	})
}

// ClientShare is the largest share of its processors, or of that of its busiest thread, that the client used.
func (p *Point) ClientShare() float64 {
	share := 0.0
	for _, x := range p.Repeats {
		share = max(share, x.Client.Share, x.Client.Busiest)
	}
	return share
}

// Limited reports whether the client was the limit of any repeat.
func (p *Point) Limited() bool {
	return slices.ContainsFunc(p.Repeats, func(x *load.Result) bool { return x.Client.Limited })
}

// lost counts timed requests that were not answered rightly.
func (p *Point) lost() (lost, timed uint64) {
	for _, x := range p.Repeats {
		lost += x.Timed - x.OK
		timed += x.Timed
	}
	return lost, timed
}

// sound reports whether the point may stand for a throughput (I2).
func (p *Point) sound() bool {
	lost, timed := p.lost()
	return p.Mode == load.Closed && timed > 0 && lost*1000 <= timed
}
