package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

type options struct {
	out     string // folder of micro.json and micro.md
	cpu     int    // processor that everything is measured on
	repeats int
	quick   bool
	python  string // interpreter with the packages of bench/python/requirements-lookup.txt; empty: NumPy, torch and FBGEMM are left out
}

// results is micro.json.
type results struct {
	Schema  int                   `json:"schema"`
	CPU     int                   `json:"cpu"`
	Repeats int                   `json:"repeats"`
	Quick   bool                  `json:"quick,omitempty"` // one short run with small tables: the figures say only that it works
	Load    float64               `json:"load_average"`    // of the last minute, before anything was measured
	Figures map[string]*figure    `json:"figures"`         // by "package Benchmark/name unit"
	Python  *pythonResults        `json:"python,omitempty"`
	Table   map[string][]compared `json:"table"`
}

func main() {
	var o options
	pflag.StringVar(&o.out, "out", "bench/results", "folder of micro.json and micro.md")
	pflag.IntVar(&o.cpu, "cpu", 0, "processor that everything is measured on")
	pflag.IntVar(&o.repeats, "repeats", 5, "runs of every part; medians are quoted")
	pflag.BoolVar(&o.quick, "quick", false, "small tables and one short run: to see whether it works")
	pflag.StringVar(&o.python, "python", "", "interpreter with the packages of bench/python/requirements-lookup.txt; empty: no comparison with NumPy, torch and FBGEMM")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "micro:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	list := parts(o)
	busy, err := loadAverage()
	if err != nil {
		return err
	}
	r := &results{Schema: 1, CPU: o.cpu, Repeats: o.repeats, Quick: o.quick, Load: busy, Figures: map[string]*figure{}}
	fmt.Fprintf(os.Stderr, "load average %.2f; whatever else runs on this machine is in the figures\n", busy)
	if o.quick {
		fmt.Fprintln(os.Stderr, quickWarning)
	}
	dir, err := os.MkdirTemp("", "rankd-micro-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i := range list {
		if err := list[i].build(ctx, dir); err != nil {
			return err
		}
	}
	for n := range o.repeats {
		for i := range list {
			fmt.Fprintf(os.Stderr, "repeat %d of %d: %s\n", n+1, o.repeats, list[i].pkg)
			if err := list[i].run(ctx, o, r.Figures); err != nil {
				return err
			}
		}
		if o.python != "" {
			fmt.Fprintf(os.Stderr, "repeat %d of %d: NumPy, torch, FBGEMM\n", n+1, o.repeats)
			if err := lookups(ctx, o, r); err != nil {
				return err
			}
		}
	}
	for _, f := range r.Figures {
		f.settle()
	}
	r.Table = table(r)
	return errors.Join(r.write(o.out), r.print(os.Stdout))
}

const quickWarning = "quick: one short run with small tables. The figures say only that it works."

// loadAverage is the mean number of runnable threads over the last minute.
func loadAverage() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}

// write puts micro.json and micro.md into the folder.
func (r *results) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	page, err := os.Create(filepath.Join(dir, "micro.md"))
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "micro.json"), append(text, '\n'), 0o644), r.print(page), page.Close())
}
