package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"rankd/bench/ablation"
	"rankd/bench/capacity"
	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/bench/overload"
	"rankd/bench/soak"
)

// RunsName is the file of everything that a page and its charts are made of. It is published beside them, so that they can be made
// anew when the report changes; the results that it is made of are a hundred times its size.
const RunsName = "runs.json"

// runs is the form of runs.json. Fields that are 0, false or empty are left out.
type runs struct {
	Schema    int            `json:"schema"` // load.Schema
	Arms      []armRuns      `json:"arms"`
	Capacity  *capacity.File `json:"capacity"`
	Overload  *overload.File `json:"overload"`
	Soak      *soak.File     `json:"soak"`
	Ablations *ablation.File `json:"ablations"`
}

// armRuns are the files of an arm, in the order in which they were read.
type armRuns struct {
	Name  string       `json:"name"`
	Files []*load.File `json:"files"`
}

// readRuns takes the results from runs.json; without one there are none.
func (r *Results) readRuns(dir string) error {
	x := &runs{}
	if found, err := readFile(filepath.Join(dir, RunsName), x, &x.Schema); !found {
		return err
	}
	r.published = true
	for _, a := range x.Arms {
		if err := r.gather(a.Name, a.Files); err != nil {
			return err
		}
	}
	r.trials = trials{Overload: x.Overload, Soak: x.Soak, Ablations: x.Ablations}
	r.analyse()
	if x.Capacity == nil {
		return nil
	}
	return r.takeCapacity(x.Capacity)
}

// writeRuns writes runs.json, unless it is what was read.
func (r *Results) writeRuns(dir string) error {
	if r.published {
		return nil
	}
	x := runs{Schema: load.Schema, Arms: r.files, Overload: r.Overload, Soak: r.Soak, Ablations: r.Ablations}
	if len(r.Capacity) > 0 {
		x.Capacity = &capacity.File{Schema: load.Schema, PricePerHour: r.Price, Servers: r.Capacity}
	}
	text, err := json.Marshal(x.slim())
	if err == nil {
		text, err = withoutZeros(text)
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", RunsName, err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunsName), text, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", RunsName, err)
	}
	return nil
}

// slim copies what pages are made of, and leaves the results as they are.
func (x runs) slim() runs {
	x.Arms = slices.Clone(x.Arms)
	for i, a := range x.Arms {
		files := make([]*load.File, len(a.Files))
		for k, f := range a.Files {
			files[k] = &load.File{Schema: f.Schema, Variant: f.Variant, Sweep: f.Sweep, Repeat: f.Repeat, Sizes: f.Sizes, Memory: f.Memory, Results: slimAll(f.Results)}
		}
		x.Arms[i].Files = files
	}
	if x.Capacity != nil {
		f := *x.Capacity
		f.Servers = slices.Clone(f.Servers)
		for i := range f.Servers {
			s := &f.Servers[i]
			s.Points = slices.Clone(s.Points)
			for k := range s.Points {
				s.Points[k].Results = slimAll(s.Points[k].Results)
			}
		}
		x.Capacity = &f
	}
	if x.Overload != nil {
		f := *x.Overload
		f.Scenarios = slices.Clone(f.Scenarios)
		for i := range f.Scenarios {
			s := &f.Scenarios[i]
			s.Alone, s.Result, s.After = slim(s.Alone), slim(s.Result), slim(s.After)
			s.Samples = []gauges.Sample{s.Peak()} // a page has the largest only
		}
		x.Overload = &f
	}
	if x.Soak != nil && x.Soak.Result != nil {
		f := *x.Soak
		seconds := f.Result.Seconds
		f.Result = slim(f.Result)
		f.Result.Seconds = seconds // its chart shows every one
		x.Soak = &f
	}
	if x.Ablations != nil {
		f := *x.Ablations
		f.Tables = slices.Clone(f.Tables)
		for i, t := range f.Tables {
			c := *t
			c.Settings = slices.Clone(c.Settings)
			for k := range c.Settings {
				c.Settings[k].Results = slimAll(c.Settings[k].Results)
			}
			f.Tables[i] = &c
		}
		x.Ablations = &f
	}
	return x
}

func slimAll(list []*load.Result) []*load.Result {
	out := make([]*load.Result, len(list))
	for i, r := range list {
		out[i] = slim(r)
	}
	return out
}

// slim is a run without what no page shows: its seconds, addresses and settings that all runs of a page have in common.
func slim(r *load.Result) *load.Result {
	if r == nil {
		return nil
	}
	c := *r
	c.Target, c.Began, c.IDs, c.Executor, c.Protocol, c.Seed, c.Bytes, c.Connections, c.Warmup, c.Duration = "", "", "", "", "", 0, 0, 0, 0, 0
	c.Schema, c.Verified, c.MaxDifference, c.Reconnects, c.Seconds = 0, false, 0, 0, nil
	c.Client = load.Client{Share: r.Client.Share, Busiest: r.Client.Busiest, PerCall: r.Client.PerCall, Limited: r.Client.Limited}
	if r.Server != nil {
		c.Server = &load.Server{PerThousand: r.Server.PerThousand}
	}
	return &c
}

// withoutZeros leaves out fields of objects that are read back as they are without it.
func withoutZeros(text []byte) ([]byte, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	prune(v)
	text, err := json.Marshal(v)
	return append(text, '\n'), err
}

func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			prune(x)
			list, isList := x.([]any)
			if x == nil || x == false || x == "" || x == json.Number("0") || isList && len(list) == 0 {
				delete(v, name)
			}
		}
	case []any:
		for _, x := range v {
			prune(x)
		}
	}
}
