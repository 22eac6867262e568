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
	"rankd/bench/load"
)

// Arm is everything that was measured of one server.
type Arm struct {
	Name       string
	Results    []*load.Result
	Points     []*Point
	MemoryMiB  float64 // the largest reading; 0: none
	Mismatches uint64
	First      string // the first mismatch
}

// Point is the repeats of one load.
type Point struct {
	Mode    string
	Load    float64 // callers or requests a second
	Rows    int
	Repeats []*load.Result
}

// Results are those of a work directory.
type Results struct {
	Arms      []*Arm
	Capacity  []capacity.Server
	Price     float64
	Env       string
	Simulated bool
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
	env, err := os.ReadFile(filepath.Join(dir, "env.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	r.Env = strings.TrimSpace(string(env))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("collect results: %w", err)
	}
	if len(r.Arms) == 0 && len(r.Capacity) == 0 {
		return nil, fmt.Errorf("collect results: got none in %s, want <arm>/*.json as bench load writes them", dir)
	}
	slices.SortFunc(r.Arms, func(a, b *Arm) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return r, nil
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

const product = "rankd"

func isPython(name string) bool { return strings.HasPrefix(name, "py") }

func (r *Results) collectArm(dir, name string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	arm := &Arm{Name: name}
	for _, path := range files {
		if strings.HasSuffix(path, ".monitor.json") {
			continue
		}
		f, err := load.ReadFile(path)
		if err != nil {
			return err
		}
		arm.Results = append(arm.Results, f.Results...)
		for _, m := range f.Memory {
			arm.MemoryMiB = max(arm.MemoryMiB, float64(m.Bytes())/(1<<20))
		}
	}
	if len(arm.Results) == 0 {
		return nil
	}
	for _, x := range arm.Results {
		r.Simulated = r.Simulated || x.Simulated
		arm.Mismatches += x.Mismatches
		arm.First = cmp.Or(arm.First, x.FirstMismatch)
	}
	arm.Points = group(arm.Results)
	r.Arms = append(r.Arms, arm)
	return nil
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
	for _, s := range f.Servers {
		for _, p := range s.Points {
			for _, x := range p.Results {
				r.Simulated = r.Simulated || x.Simulated
			}
		}
	}
	r.Capacity, r.Price = append(r.Capacity, f.Servers...), max(r.Price, f.PricePerHour)
	return nil
}

// group gathers the repeats of each load.
func group(results []*load.Result) []*Point {
	type key struct {
		mode string
		load float64
		rows int
	}
	points := map[key]*Point{}
	var list []*Point
	for _, x := range results {
		k := key{x.Mode, max(float64(x.Callers), x.Rate), x.Rows}
		p := points[k]
		if p == nil {
			p = &Point{Mode: k.mode, Load: k.load, Rows: k.rows}
			points[k] = p
			list = append(list, p)
		}
		p.Repeats = append(p.Repeats, x)
	}
	slices.SortFunc(list, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Load, b.Load))
	})
	return list
}

// median is that of a figure over the repeats.
func (p *Point) median(of func(*load.Result) float64) float64 {
	var list []float64
	for _, x := range p.Repeats {
		list = append(list, of(x))
	}
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
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
