package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"rankd/bench/capacity"
	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
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
	JSON        string        `flag:"json" help:"file for the results"`
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
	all := append([]string{"--executor=" + e.Executor}, p.ServerFlags...)
	return launch.Start(ctx, launch.Options{Binary: binary, Model: e.Model, Flags: append(all, flags...), CPUs: p.ServerCPUs})
}

// capacityConfig is what a person may set about a search for capacities.
type capacityConfig struct {
	Target       string        `flag:"target" unit:"host:port" help:"a server that runs already; empty: one is started for each policy"`
	ServerPID    int           `flag:"server-pid" min:"0" help:"its process; 0: the rankd server that listens at the target"`
	Batching     []string      `flag:"batching" help:"batching policies to start servers with, measured one after the other"`
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
	return tool(&cobra.Command{
		Use:   "capacity --model DIR",
		Short: "find the rate that a server can be offered within a latency",
		Long:  capacityLong,
		Example: `  rankd bench capacity --model demo --executor sim --batching continuous,fused
  rankd bench capacity --model demo --target 127.0.0.1:8500 --objectives 20ms`,
	}, func(ctx context.Context, out, progress io.Writer) error { return c.run(ctx, &e, &p, out, progress) }, &e, &p, &c)
}

func (c *capacityConfig) run(ctx context.Context, e *examConfig, p *pacedConfig, out, progress io.Writer) error {
	var objectives []time.Duration
	for _, text := range c.Objectives {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("check --objectives: got %q, want durations such as 20ms", text)
		}
		objectives = append(objectives, d)
	}
	set, err := e.open(progress)
	if err != nil {
		return err
	}
	requests, err := set.Requests(p.Rows)
	if err != nil {
		return err
	}
	file := capacity.NewFile(c.PricePerHour)
	if c.Target != "" {
		err = c.measure(ctx, file, "target", nil, p.options(c.Target, requests), findServer(c.ServerPID, c.Target), objectives, progress)
	} else {
		err = c.policies(ctx, file, e, p, requests, objectives, progress)
	}
	fmt.Fprint(out, file.Summary())
	if p.JSON != "" {
		err = errors.Join(err, load.WriteJSON(p.JSON, file))
	}
	return err
}

// policies measures a server for each batching policy, one after the other.
func (c *capacityConfig) policies(ctx context.Context, file *capacity.File, e *examConfig, p *pacedConfig, requests *exam.Requests, objectives []time.Duration, progress io.Writer) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this command: %w", err)
	}
	for _, policy := range c.Batching {
		flags := []string{"--batching=" + policy}
		s, err := p.launch(ctx, binary, e, flags...)
		if err != nil {
			return err
		}
		err = c.measure(ctx, file, policy, append(flags, p.ServerFlags...), p.options(s.Target, requests), s.PID, objectives, progress)
		if err := errors.Join(err, s.Stop()); err != nil {
			return err
		}
	}
	return nil
}

// measure finds the capacities of one server and adds them to the file, as far as they were found.
func (c *capacityConfig) measure(ctx context.Context, file *capacity.File, name string, flags []string, o load.Options, pid int, objectives []time.Duration, progress io.Writer) error {
	o.Mode, o.Drain = load.Fixed, c.Drain
	if pid != 0 {
		o.CPU = monitor.NewTree(pid).CPU
	}
	search, err := capacity.NewSearch(capacity.Options{
		Start: float64(c.StartRate), Max: float64(c.MaxRate), Precision: c.Precision, Repeats: c.Repeats,
		Progress: func(text string) { fmt.Fprintf(progress, "%s: %s\n", name, text) },
		Run: func(ctx context.Context, rate float64, _ int) (*load.Result, error) {
			o.Rate = rate
			return load.Run(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	s := capacity.Server{Name: name, Flags: flags}
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
