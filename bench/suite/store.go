package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rankd/bench/load"
)

// path is the file of the results of a variant at a size in one repeat.
func (s *suite) path(v *variant, rows, repeat int, sweep bool) string {
	name := fmt.Sprintf("%s.x%d.r%d.json", v.label(), rows, repeat)
	if sweep {
		name = "sweep." + name
	}
	return filepath.Join(s.o.Results(), v.name, name)
}

// read returns the results that are there; those of another configuration are not (I2).
func (s *suite) read(v *variant, rows, repeat int, sweep bool) *load.File {
	config := s.digest(v, rows)
	if f, err := load.ReadFile(s.path(v, rows, repeat, sweep)); err == nil && f.Config == config {
		return f
	}
	return &load.File{Schema: load.Schema, Arm: v.name, Variant: v.label(), Sweep: sweep, Repeat: repeat, Config: config}
}

func (s *suite) write(v *variant, rows int, f *load.File) error {
	path := s.path(v, rows, f.Repeat, f.Sweep)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return load.WriteJSON(path, f)
}

// has reports whether a task was done. The rate of an open loop is part of that (I3).
func (s *suite) has(v *variant, t task, f *load.File) bool {
	return slices.ContainsFunc(f.Results, func(r *load.Result) bool {
		if t.callers > 0 {
			return r.Mode == load.Closed && r.Callers == t.callers
		}
		return r.Mode == load.Poisson && r.Rate == s.rate(v, t)
	})
}

// configuration is everything that a result depends on.
type configuration struct {
	Suite      int // changes when points are measured in another way
	Machine    string
	Server     string // digest of its code
	Command    []string
	Model      string
	Rows       int
	IDs        string
	Examples   int
	ServerCPUs []int
	ClientCPUs []int
	Duration   time.Duration
	Warmup     time.Duration
	Workload   string `json:",omitempty"` // "": independent examples
}

const suiteVersion = 1

func (s *suite) digest(v *variant, rows int) string {
	o, b := s.launch(v), s.bundles[v.rows]
	c := configuration{
		Suite: suiteVersion, Machine: s.machine, Server: s.sources[v.kind], Command: append(o.Command, o.Flags...), Rows: rows, Model: b.id,
		IDs: s.o.IDs, Examples: b.set.Options().Examples, ServerCPUs: s.o.ServerCPUs, ClientCPUs: s.o.ClientCPUs, Duration: s.o.Duration, Warmup: s.o.Warmup,
	}
	if s.o.sharedUser() {
		c.Workload = s.o.Workload
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain values
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16]
}
