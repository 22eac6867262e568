package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/bench/capacity"
	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/internal/config"
)

// pacedConfig is what a person may set about runs against servers that are started for them.
type pacedConfig struct {
	ServerFlags []string      `flag:"server-flags" help:"flags of serve for servers that are started here, such as --frontends=2"`
	ServerCPUs  []int         `flag:"server-cpus" help:"processors for servers that are started here; empty: all of this process (see taskset)"`
	Rows        int           `flag:"examples-per-request" min:"1" unit:"rows" help:"examples in a request"`
	Connections int           `flag:"connections" min:"1" max:"10000" help:"persistent connections"`
	Threads     int           `flag:"threads" min:"1" max:"64" help:"threads of the client"`
	Duration    time.Duration `flag:"duration" min:"100ms" help:"time that counts, a run"`
	Warmup      time.Duration `flag:"warmup" min:"0s" help:"time before it that does not count"`
	JSON        string        `flag:"json" unit:"file" help:"file for the results"`
	Resume      bool          `flag:"resume" hidden:"true" help:"keep what the file has of an interrupted run with the same flags, and measure only the rest"`
}

// options are those of a run against a target.
func (p *pacedConfig) options(target string, requests *exam.Requests) load.Options {
	o := load.Default()
	o.Target, o.Requests, o.Connections, o.Threads = target, requests, p.Connections, p.Threads
	o.Duration, o.Warmup = p.Duration, p.Warmup
	return o
}

// launch starts a server with these settings and more flags.
func (p *pacedConfig) launch(ctx context.Context, binary string, e *examConfig, flags ...string) (*launch.Server, error) {
	return launch.Start(ctx, p.launchOptions(binary, e, flags...))
}

// launchOptions are those of a server with these settings and more flags, which win.
func (p *pacedConfig) launchOptions(binary string, e *examConfig, flags ...string) launch.Options {
	all := append([]string{"--executor=" + e.Executor}, p.ServerFlags...)
	return launch.Options{Binary: binary, Model: e.Model, Flags: append(all, flags...), CPUs: p.ServerCPUs}
}

// capacityConfig is what a person may set about a search for capacities.
type capacityConfig struct {
	Target       string        `flag:"target" unit:"host:port" help:"a server that runs already; empty: one is started for each policy"`
	ServerPID    int           `flag:"server-pid" min:"0" help:"its process; 0: the rankd server that listens at the target"`
	Batching     []string      `flag:"batching" help:"batching policies to start servers with, measured one after the other"`
	Connects     []int         `flag:"connection-counts" help:"numbers of connections, measured one after the other with the first policy; empty: only --connections"`
	Halves       bool          `flag:"halves" help:"also two servers with half of --server-cpus each (and, simulated, half an accelerator) against one with all"`
	Objectives   []string      `flag:"objectives" unit:"duration" help:"latest that a reply may come after its request was due"`
	StartRate    int           `flag:"start-rate" min:"1" unit:"requests/s" help:"rate that is offered first"`
	MaxRate      int           `flag:"max-rate" min:"1" unit:"requests/s" help:"highest rate that is offered"`
	Precision    float64       `flag:"precision" min:"0.001" max:"1" help:"how close rates that pass and fail get: 0.05 is 5 %"`
	Repeats      int           `flag:"repeats" min:"1" max:"100" help:"runs at a rate, all of which must pass"`
	Drain        time.Duration `flag:"drain" min:"0s" help:"how long replies are awaited after a run; a request without one has failed"`
	PricePerHour float64       `flag:"price-per-hour" min:"0" help:"of the machine, for the cost of a million requests"`
}

const capacityLong = `Find the highest rate of requests at which a server keeps a promise: in every repeat every timed request
was answered rightly, no later than the objective after it was due. Requests are sent on a fixed
schedule that never waits for replies. Runs in which this client was the limit decide nothing.`

func newBenchCapacity() *cobra.Command {
	e := defaultExam()
	p := pacedConfig{Rows: 1, Connections: 64, Threads: 1, Duration: 5 * time.Second, Warmup: time.Second}
	c := capacityConfig{
		Batching: []string{"continuous"}, Objectives: []string{"1s", "20ms"}, StartRate: 500, MaxRate: 1_000_000, Precision: 0.05,
		Repeats: 3, Drain: 5 * time.Second,
	}
	var cmd *cobra.Command
	cmd = tool(&cobra.Command{
		Use:   "capacity --model DIR",
		Short: "find the rate that a server can be offered within a latency",
		Long:  capacityLong,
		Example: `  rankd bench capacity --model demo --executor sim --batching continuous,fused
  rankd bench capacity --model demo --target 127.0.0.1:8500 --objectives 20ms
  rankd bench capacity --model demo --server-cpus 0,1 --halves`,
	}, func(ctx context.Context, out, progress io.Writer) error {
		if e.Workload == exam.SharedUser && !cmd.Flags().Changed("examples-per-request") {
			p.Rows = exam.SharedUserSizes()[0]
		}
		if err := c.refuseUnused(cmd.Flags()); err != nil {
			return err
		}
		return c.run(ctx, &e, &p, out, progress)
	}, &e, &p, &c)
	return cmd
}

// refuseUnused refuses flags of servers that are started here beside one that runs already: they would change nothing.
func (c *capacityConfig) refuseUnused(flags *pflag.FlagSet) error {
	if c.Target == "" {
		return nil
	}
	var errs []error
	for _, name := range []string{"batching", "halves", "connection-counts", "server-flags", "server-cpus"} {
		if flags.Changed(name) {
			errs = append(errs, fmt.Errorf("check --%s: got it with --target, want one of them: it is for servers that are started here", name))
		}
	}
	return withCode(errors.Join(errs...), config.ExitBadConfig)
}

func (c *capacityConfig) run(ctx context.Context, e *examConfig, p *pacedConfig, out, progress io.Writer) error {
	if err := writable("json", p.JSON); err != nil {
		return err
	}
	var objectives []time.Duration
	for _, text := range c.Objectives {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return withCode(fmt.Errorf("check --objectives: got %q, want durations such as 20ms", text), config.ExitBadConfig)
		}
		objectives = append(objectives, d)
	}
	sets, err := c.sets(e, p)
	if err != nil {
		return err
	}
	set, err := e.open(ctx, progress)
	if err != nil {
		return err
	}
	requests, err := set.Requests(p.Rows)
	if err != nil {
		return err
	}
	file := capacity.NewFile(c.PricePerHour)
	if err := p.resumed(file); err != nil {
		return err
	}
	if c.Target != "" {
		var pids []int
		if pid := findServer(c.ServerPID, c.Target); pid != 0 {
			pids = []int{pid}
		}
		err = c.measure(ctx, file, capacity.Server{Name: "target"}, p.options(c.Target, requests), pids, objectives, progress)
	} else {
		err = c.policies(ctx, file, sets, e, p, requests, objectives, progress)
	}
	if err != nil && len(file.Servers) == 0 { // nothing to show, and nothing to replace earlier results with
		return err
	}
	fmt.Fprint(out, file.Summary())
	if p.JSON != "" {
		err = errors.Join(err, load.WriteJSON(p.JSON, file))
	}
	if err != nil {
		return err
	}
	return file.Without()
}

// sets lists the servers that are started, by the names that their capacities get.
func (c *capacityConfig) sets(e *examConfig, p *pacedConfig) ([]serverSet, error) {
	var list []serverSet
	for _, policy := range c.Batching {
		list = append(list, serverSet{name: policy, flags: []string{"--batching=" + policy}, cpus: [][]int{p.ServerCPUs}, connections: p.Connections})
	}
	for _, n := range c.Connects {
		list = append(list, serverSet{
			name: c.Batching[0] + ", " + connections(n), flags: []string{"--batching=" + c.Batching[0]}, cpus: [][]int{p.ServerCPUs}, connections: n,
		})
	}
	if !c.Halves {
		return list, nil
	}
	first, second, err := half(p.ServerCPUs)
	if err != nil {
		return nil, err
	}
	frontends := 2 * max(1, len(p.ServerCPUs)/2) // of both together, so that the one server has as many
	base := "--batching=" + c.Batching[0]
	var slower []string
	if e.Executor == exam.Sim { // two halves of one accelerator, not two accelerators
		slower = []string{"--sim-call=700us", "--sim-row=3us"}
	}
	return append(list,
		serverSet{name: "one server", flags: []string{base, fmt.Sprintf("--frontends=%d", frontends)}, cpus: [][]int{p.ServerCPUs}, connections: p.Connections},
		serverSet{name: "two half servers", flags: append([]string{base, fmt.Sprintf("--frontends=%d", frontends/2)}, slower...), cpus: [][]int{first, second}, connections: p.Connections},
	), nil
}

// half splits processors; a single one is shared.
func half(cpus []int) (first, second []int, err error) {
	switch n := len(cpus); n {
	case 0:
		return nil, nil, withCode(errors.New("check --halves: got no --server-cpus, want those that the servers shall share"), config.ExitBadConfig)
	case 1:
		return cpus, cpus, nil
	default:
		return cpus[:n/2], cpus[n/2:], nil
	}
}

// serverSet is servers that take a load together.
type serverSet struct {
	name        string
	flags       []string
	cpus        [][]int // of each server
	connections int     // in all
}

// policies measures sets of servers, one after the other.
func (c *capacityConfig) policies(ctx context.Context, file *capacity.File, sets []serverSet, e *examConfig, p *pacedConfig, requests *exam.Requests, objectives []time.Duration, progress io.Writer) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this command: %w", err)
	}
	for _, set := range sets {
		if slices.ContainsFunc(file.Servers, func(s capacity.Server) bool { return s.Name == set.name && len(s.Capacities) == len(objectives) }) {
			fmt.Fprintf(progress, "%s: was measured before\n", set.name)
			continue
		}
		file.Servers = slices.DeleteFunc(file.Servers, func(s capacity.Server) bool { return s.Name == set.name }) // in part only
		if err := c.measureSet(ctx, file, set, binary, e, p, requests, objectives, progress); err != nil {
			return err
		}
		if p.JSON != "" {
			if err := load.WriteJSON(p.JSON, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *capacityConfig) measureSet(ctx context.Context, file *capacity.File, set serverSet, binary string, e *examConfig, p *pacedConfig, requests *exam.Requests, objectives []time.Duration, progress io.Writer) (err error) {
	var targets []string
	var pids, frontends []int
	threads := 0
	for _, cpus := range set.cpus {
		one := *p
		one.ServerCPUs = cpus
		s, err := one.launch(ctx, binary, e, set.flags...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Stop()) }()
		status, err := s.Status(ctx)
		if err != nil {
			return err
		}
		targets, pids, frontends = append(targets, s.Target), append(pids, s.PID), append(frontends, status.Frontends())
		threads = status.Threads()
	}
	o := p.options(strings.Join(targets, ","), requests)
	o.Connections = set.connections
	about := capacity.Server{Name: set.name, Flags: append(slices.Clone(set.flags), p.ServerFlags...), Frontends: frontends, Threads: threads}
	return c.measure(ctx, file, about, o, pids, objectives, progress)
}

// connections are so many of them.
func connections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// measure finds the capacities of one server and adds them to the file, as far as they were found.
func (c *capacityConfig) measure(ctx context.Context, file *capacity.File, s capacity.Server, o load.Options, pids []int, objectives []time.Duration, progress io.Writer) error {
	o.Mode, o.Drain = load.Fixed, c.Drain
	if len(pids) > 0 {
		o.CPU = cpuOf(pids)
	}
	search, err := capacity.NewSearch(capacity.Options{
		Start: float64(c.StartRate), Max: float64(c.MaxRate), Precision: c.Precision, Repeats: c.Repeats,
		Progress: func(text string) { fmt.Fprintf(progress, "%s: %s\n", s.Name, text) },
		Run: func(ctx context.Context, rate float64, _ int) (*load.Result, error) {
			o.Rate = rate
			return load.Run(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	for _, objective := range objectives {
		found, failed := search.Find(ctx, objective)
		if err = failed; err != nil {
			break
		}
		s.Capacities = append(s.Capacities, found)
	}
	s.Points = search.Points()
	file.Servers = append(file.Servers, s)
	return err
}

// cpuOf gives the CPU seconds of several trees of processes.
func cpuOf(pids []int) func() (float64, error) {
	var trees []*monitor.Tree
	for _, pid := range pids {
		trees = append(trees, monitor.NewTree(pid))
	}
	return func() (float64, error) {
		sum := 0.0
		for _, t := range trees {
			cpu, err := t.CPU()
			if err != nil {
				return 0, err
			}
			sum += cpu
		}
		return sum, nil
	}
}
