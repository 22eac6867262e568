package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"rankd/bench/load"
)

// part is the benchmarks of one package.
type part struct {
	pkg    string // below the module's root
	bench  string // regular expression
	time   string // of a benchmark
	env    []string
	binary string
}

func parts(o *options) []part {
	long, short := "400ms", "200ms"
	gather := []string{"RANKD_BIG=1"}
	if o.quick {
		long, short, gather = "10ms", "10ms", []string{"RANKD_BIG=small"}
		o.repeats = 1
	}
	return []part{
		{pkg: "tables", bench: "^BenchmarkGather$", time: long, env: gather},
		{pkg: "shmring", bench: "^BenchmarkRoundTrip$", time: short},
		{pkg: "deviceowner", bench: "^Benchmark(Batch|Saturated)$", time: long},
		{pkg: "deviceowner/pjrt", bench: "^Benchmark(TinyProgram|WideRows)$", time: short},
		{pkg: "frontend/wire", bench: "^BenchmarkDecode$", time: short},
		{pkg: "frontend", bench: "^BenchmarkScoreUnary$", time: short},
	}
}

func (p *part) build(ctx context.Context, dir string) error {
	p.binary = filepath.Join(dir, strings.ReplaceAll(p.pkg, "/", "-")+".test")
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", p.binary, "./"+p.pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the benchmarks of %s: %w\n%s", p.pkg, err, out)
	}
	return nil
}

// run makes one repeat of all benchmarks of the part.
func (p *part) run(ctx context.Context, o *options, figures map[string]*figure) error {
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(o.cpu), p.binary, "-test.run=^$", "-test.bench="+p.bench, "-test.benchtime="+p.time)
	cmd.Dir = p.pkg // tests read their testdata
	cmd.Env = append(os.Environ(), p.env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the benchmarks of %s: %w\n%s%s", p.pkg, err, out, errs.Bytes())
	}
	reader := benchfmt.NewReader(bytes.NewReader(out), p.pkg)
	for reader.Scan() {
		x, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		for _, v := range x.Values {
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" { // benchfmt makes ns/op sec/op
				value, unit = v.OrigValue, v.OrigUnit
			}
			key := fmt.Sprintf("%s %s %s", p.pkg, "Benchmark"+bare(x.Name.String()), unit)
			if figures[key] == nil {
				figures[key] = &figure{Unit: unit}
			}
			figures[key].Values = append(figures[key].Values, value)
		}
	}
	return errors.Join(reader.Err(), ctx.Err())
}

// bare is a benchmark's name without the number of processors at its end.
func bare(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			return name[:i]
		}
	}
	return name
}

// figure is one unit of a benchmark.
type figure struct {
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one a repeat, in their order
	Median float64   `json:"median"`
}

func (f *figure) settle() { f.Median = load.Median(f.Values) }
