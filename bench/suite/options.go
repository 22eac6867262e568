package suite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rankd/bench/exam"
)

// Platforms that a comparison runs on.
const (
	Sim  = "sim" // the simulated accelerator
	CPU  = "cpu"
	CUDA = "cuda"
	TPU  = "tpu"
)

// Shares of an arm's peak that are offered in the open loop.
var openShares = []float64{0.5, 0.8}

// connections is how many the client keeps open, whatever the load.
const connections = 64

// Options say what is compared, on what, and for how long.
type Options struct {
	Name       string // of the set of results, a folder in WorkDir/results
	Platform   string
	Arms       []string
	Shared     bool // also the Python arms of several processes with one copy of the tables
	ServerCPUs []int
	ClientCPUs []int
	Processes  []int // that are swept: Python frontends, rankd's frontends; nil: what suits the processors
	Threads    []int // of a frontend of rankd; nil: what suits the processors
	MaxVocab   int64
	IDs        string
	Workload   string // "": exam.Independent
	Duration   time.Duration
	Warmup     time.Duration
	Repeats    int
	Callers    []int
	Sizes      []int // examples a request

	Replace bool // results of another configuration are removed, not refused

	Source   string // directory of the repository
	WorkDir  string
	CacheDir string  // models, Python packages, expected scores; may be removed at any time
	Rankd    string  // the command
	Python   string  // an interpreter that has the packages; "": one is made
	Price    float64 // of the machine an hour; 0: not known

	Out      io.Writer // results for people
	Progress io.Writer
}

// Results is the directory of the results.
func (o *Options) Results() string { return filepath.Join(o.WorkDir, "results", o.Name) }

// Model is the directory of the bundle.
func (o *Options) Model() string {
	return filepath.Join(o.CacheDir, fmt.Sprintf("model-%d", o.MaxVocab))
}

// sharedUser reports whether the examples of a request have one user.
func (o *Options) sharedUser() bool { return o.Workload == exam.SharedUser }

// Simulated reports whether the accelerator is.
func (o *Options) Simulated() bool { return o.Platform == Sim }

// packages names the set of Python packages: the simulated accelerator needs no JAX.
func (o *Options) packages() string {
	if o.Simulated() {
		return Sim
	}
	return "jax"
}

func (o *Options) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{Sim, CPU, CUDA, TPU}, o.Platform) {
		refuse("check --platform: got %q, want %s, %s, %s or %s", o.Platform, Sim, CPU, CUDA, TPU)
	}
	for _, name := range o.Arms {
		if _, ok := armByName(name); !ok {
			refuse("check --arms: got %q, want some of %v", name, ArmNames())
		}
	}
	if !slices.Contains(exam.Workloads(), cmp.Or(o.Workload, exam.Independent)) {
		refuse("check --workload: got %q, want some of %v", o.Workload, exam.Workloads())
	}
	if len(o.Arms) == 0 || len(o.Callers) == 0 || len(o.Sizes) == 0 {
		refuse("got %d arms, %d numbers of callers, %d request sizes; want some of each", len(o.Arms), len(o.Callers), len(o.Sizes))
	}
	for what, list := range map[string][]int{"concurrencies": o.Callers, "request-batch-sizes": o.Sizes, "num-processes": o.Processes, "num-threads": o.Threads} {
		if slices.ContainsFunc(list, func(n int) bool { return n < 1 }) {
			refuse("check --%s: got %v, want none below 1", what, list)
		}
	}
	if o.Duration <= 0 || o.Warmup < 0 || o.Repeats < 1 {
		refuse("got duration %v, warm-up %v, %d repeats; want a duration above 0, no negative warm-up, at least 1 repeat", o.Duration, o.Warmup, o.Repeats)
	}
	if _, err := os.Stat(filepath.Join(o.Source, pythonDir, "requirements.txt")); err != nil {
		refuse("check --source: %w: want the directory of rankd's repository", err)
	}
	return errors.Join(errs...)
}

// Processors lists those that this process may run on.
func Processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read processors: %w", err)
	}
	var list []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list, nil
}

// Split deals processors out to server and client, half each and the odd one to the client; on a single one they share it.
func Split(all []int) (server, client []int) {
	n := max(len(all)/2, 1)
	if len(all) == 1 {
		return all, all
	}
	return all[:n], all[n:]
}
