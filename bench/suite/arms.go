package suite

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"rankd/bench/launch"
)

// kind is who an arm is started by.
type kind int

const (
	product kind = iota
	python
	cpp
	nothing
)

// arm is a server of the comparison.
type arm struct {
	name string
	what string
	kind kind
	flag string // what makes it this one: flags of rankd, or --arm of the others
	many bool   // it has a number of processes that is to be chosen
	rows string // type of its tables' rows; "": the demo's own, float32
}

// null is the server that does nothing. It is measured to know the client and the machine, not compared.
const null = "null"

// shared is the end of the names of arms whose frontends map one copy of the tables.
const shared = "-shared"

var arms = []arm{
	{"rankd", "rankd with its defaults", product, "", true, ""},
	{"rankd-nobatch", "rankd, each request a batch of its own", product, "--batching=off", true, ""},
	{"rankd-int8", "rankd, rows of tables as int8 with a scale and a bias each; its scores are compared with those of such rows", product, "", true, "int8"},
	{"py", "Python, one process, 8 gRPC threads, each request by itself", python, "py", false, ""},
	{"py-batch", "the same with a batcher (1 ms, 4096 rows)", python, "py-batch", false, ""},
	{"py-mp", "Python, frontend processes with tables of their own and one device owner, each request by itself", python, "py-mp", true, ""},
	{"py-mp-batch", "the same with a batcher a frontend", python, "py-mp-batch", true, ""},
	{"py-mp" + shared, "py-mp, but one copy of the tables for all frontends", python, "py-mp", true, ""},
	{"py-mp-batch" + shared, "py-mp-batch, but one copy of the tables for all frontends", python, "py-mp-batch", true, ""},
	{"cpp-batch", "C++ gRPC, one process, all cores, a shared batcher (1 ms, powers of two)", cpp, "cpp-batch", false, ""},
	{null, "a server that does nothing", nothing, "", false, ""},
}

func armByName(name string) (arm, bool) {
	i := slices.IndexFunc(arms, func(a arm) bool { return a.name == name })
	if i < 0 {
		return arm{}, false
	}
	return arms[i], true
}

// ArmNames lists the arms that may be asked for.
func ArmNames() []string {
	var list []string
	for _, a := range arms {
		if a.kind != nothing {
			list = append(list, a.name)
		}
	}
	return list
}

// DefaultArms lists those that are compared unless others are asked for.
func DefaultArms() []string {
	return slices.DeleteFunc(ArmNames(), func(name string) bool { return strings.HasSuffix(name, shared) })
}

// chosen lists the arms of a comparison in their order.
func (o *Options) chosen() []arm {
	wanted := map[string]bool{}
	for _, name := range o.Arms {
		wanted[name] = true
		if _, ok := armByName(name + shared); ok && o.Shared {
			wanted[name+shared] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(arms), func(a arm) bool { return !wanted[a.name] })
}

// variant is an arm with its numbers of processes and threads.
type variant struct {
	arm
	processes, threads int // 0: it has no choice
}

// label tells variants of an arm apart, also in names of files.
func (v *variant) label() string {
	switch {
	case v.processes == 0:
		return "one"
	case v.kind == product:
		return fmt.Sprintf("%dx%d", v.processes, v.threads)
	}
	return fmt.Sprintf("%d", v.processes)
}

// title is the variant for people.
func (v *variant) title() string {
	switch {
	case v.processes == 0:
		return v.name
	case v.kind == product:
		return fmt.Sprintf("%s (%d frontends × %d threads)", v.name, v.processes, v.threads)
	}
	return fmt.Sprintf("%s (%d processes)", v.name, v.processes)
}

// variants lists those of an arm that are swept.
func (o *Options) variants(a arm) []*variant {
	if !a.many {
		return []*variant{{arm: a}}
	}
	cpus := len(o.ServerCPUs)
	processes := o.Processes
	if len(processes) == 0 {
		processes = slices.DeleteFunc([]int{1, 2, 4, 6, 8, 12, 16}, func(n int) bool { return n > max(2, cpus) })
	}
	var list []*variant
	for _, n := range processes {
		if a.kind != product {
			list = append(list, &variant{a, n, 0})
			continue
		}
		threads := o.Threads
		if len(threads) == 0 {
			threads = []int{int(math.Ceil(float64(cpus) / float64(n)))}
		}
		for _, t := range threads {
			list = append(list, &variant{a, n, t})
		}
	}
	return list
}

// memory is how many bytes the variant needs for tables that take some.
func (v *variant) memory(tables int64) int64 {
	if v.kind == python && v.processes > 1 && !strings.HasSuffix(v.name, shared) {
		return int64(v.processes) * tables
	}
	return tables
}

// launch says how the variant is started.
func (s *suite) launch(v *variant) launch.Options {
	o := launch.Options{CPUs: s.o.ServerCPUs}
	dir := s.o.dirOf(v.rows)
	switch v.kind {
	case product:
		o.Binary, o.Model = s.o.Rankd, dir
		o.Flags = append(s.o.Executor(), fmt.Sprintf("--frontends=%d", v.processes), fmt.Sprintf("--frontend-threads=%d", v.threads))
		if v.flag != "" {
			o.Flags = append(o.Flags, v.flag)
		}
	case python:
		device := "jax"
		if s.o.Simulated() {
			device = Sim
		}
		o.Command = []string{s.python, "-m", "rankd_bench_py", "--arm", v.flag, "--model", dir, "--listen", launch.Listen, "--device", device}
		if v.processes > 0 {
			o.Command = append(o.Command, "--num_processes", fmt.Sprint(v.processes))
		}
		if strings.HasSuffix(v.name, shared) {
			o.Command = append(o.Command, "--shared_tables")
		}
		o.Env = []string{"PYTHONPATH=" + filepath.Join(s.o.Source, pythonDir), "PYTHONDONTWRITEBYTECODE=1"}
		if !s.o.Simulated() {
			o.Env = append(o.Env, "JAX_PLATFORMS="+s.o.Platform)
		}
		o.Health = true
	case cpp:
		o.Command = []string{s.cpp, "--model", dir, "--listen", launch.Listen, "--num_threads", fmt.Sprint(len(s.o.ServerCPUs))}
		o.Health = true
	case nothing:
		o.Command = []string{s.o.Rankd, "bench", "null-server", "--listen", launch.Listen, "--threads", fmt.Sprint(len(s.o.ServerCPUs))}
	}
	return o
}

// Executor are the flags of rankd for the platform.
func (o *Options) Executor() []string {
	if o.Simulated() {
		return []string{"--executor=sim"}
	}
	return []string{"--executor=pjrt", "--platform=" + o.Platform, "--executable-cache=" + filepath.Join(o.CacheDir, "executables")}
}

// sortedKeys is for messages whose order must not change.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
