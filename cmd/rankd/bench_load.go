package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/internal/config"
)

// loadConfig is what a person may set about a load.
type loadConfig struct {
	Target      string        `flag:"target" unit:"host:port" help:"address of the server, or unix:PATH"`
	Mode        string        `flag:"mode" oneof:"closed|poisson|fixed" help:"closed: --callers requests are open at a time; poisson, fixed: --rates requests a second are sent, whatever the server does"`
	Callers     []int         `flag:"callers" min:"1" help:"closed loop: callers, one run each"`
	Rates       []int         `flag:"rates" min:"1" unit:"requests/s" help:"open loop: offered rates, one run each"`
	PerRequest  []int         `flag:"examples-per-request" min:"1" unit:"rows" help:"examples in a request, one run each; with the workload shared-user 128 and 1000 unless set"`
	Connections int           `flag:"connections" min:"1" max:"10000" help:"persistent connections"`
	Threads     int           `flag:"threads" min:"1" max:"64" help:"threads of the client"`
	Duration    time.Duration `flag:"duration" min:"100ms" help:"time that counts, a run"`
	Warmup      time.Duration `flag:"warmup" min:"0s" help:"time before it that does not count"`
	Drain       time.Duration `flag:"drain" min:"0s" help:"how long replies are awaited afterwards; a request without one has failed"`
	Deadline    time.Duration `flag:"deadline" min:"0s" help:"deadline of a request; 0: none"`
	Repeats     int           `flag:"repeats" min:"1" max:"1000" help:"times that each run is made"`
	ServerPID   int           `flag:"server-pid" min:"0" help:"process of the server, for its CPU time and memory; 0: the rankd server that listens at the target"`
	Verify      bool          `flag:"verify" help:"compare every reply with the expected scores; only a null server needs no"`
	Arm         string        `flag:"arm" help:"name of the server in a comparison"`
	JSON        string        `flag:"json" unit:"file" help:"file for the results"`
	Monitor     string        `flag:"monitor" unit:"file" help:"file for samples of the server's processes and its memory at start, peak and end"`
}

const benchLoadLong = `Send requests to a server and measure how it answers. Every reply is compared with the expected score of
its own request. One run is made for each number of callers (or rate) and of examples a request.

In an open loop latency counts from the moment at which a request was due, whatever became of those
before it. Runs in which this client was the limit are marked.`

func newBenchLoad() *cobra.Command {
	e := defaultExam()
	d := load.Default()
	c := loadConfig{
		Target: "127.0.0.1:8500", Mode: d.Mode, Callers: []int{64}, Rates: []int{1000}, PerRequest: []int{1}, Connections: 64, Threads: 1,
		Duration: d.Duration, Warmup: d.Warmup, Drain: d.Drain, Repeats: 1, Verify: true, Arm: "rankd",
	}
	var cmd *cobra.Command
	cmd = tool(&cobra.Command{
		Use:   "load --model DIR",
		Short: "send requests, check every reply, and measure",
		Long:  benchLoadLong,
		Example: `  rankd bench load --model demo --callers 1,64,256 --examples-per-request 1,16
  rankd bench load --model demo --mode poisson --rates 5000 --json open.json
  rankd bench load --model demo --workload shared-user --callers 1,16`,
	}, func(ctx context.Context, out, progress io.Writer) error {
		if e.Workload == exam.SharedUser && !cmd.Flags().Changed("examples-per-request") {
			c.PerRequest = exam.SharedUserSizes()
		}
		if err := c.refuseUnused(cmd.Flags()); err != nil {
			return err
		}
		return c.run(ctx, &e, out, progress)
	}, &e, &c)
	callers := cmd.Flags().Lookup("callers")
	cmd.Flags().VarPF(callers.Value, "c", "c", "short for --callers").Hidden = true
	return cmd
}

// refuseUnused refuses flags that the mode does not look at.
func (c *loadConfig) refuseUnused(flags *pflag.FlagSet) error {
	unused, used := []string{"callers", "c"}, "rates"
	if c.Mode == load.Closed {
		unused, used = []string{"rates"}, "callers"
	}
	for _, name := range unused {
		if flags.Changed(name) {
			return withCode(fmt.Errorf("check --%s: got it with --mode %s, which takes --%s", unused[0], c.Mode, used), config.ExitBadConfig)
		}
	}
	return nil
}

// plan lists the runs.
func (c *loadConfig) plan(set *exam.Set) ([]load.Options, error) {
	var list []load.Options
	for _, rows := range c.PerRequest {
		requests, err := set.Requests(rows)
		if err != nil {
			return nil, err
		}
		o := load.Options{
			Target: c.Target, Connections: c.Connections, Threads: c.Threads, Mode: c.Mode,
			Warmup: c.Warmup, Duration: c.Duration, Drain: c.Drain, Deadline: c.Deadline,
			Seed: set.Options().Seed, Requests: requests, Verify: c.Verify,
		}
		points := c.Callers
		if c.Mode != load.Closed {
			points = c.Rates
		}
		for _, p := range points {
			o.Callers, o.Rate = p, float64(p)
			for r := range c.Repeats {
				o.Seed = set.Options().Seed + uint64(r)
				list = append(list, o)
			}
		}
	}
	return list, nil
}

func (c *loadConfig) run(ctx context.Context, e *examConfig, out, progress io.Writer) (err error) {
	if err := errors.Join(writable("json", c.JSON), writable("monitor", c.Monitor)); err != nil {
		return err
	}
	set, err := e.open(ctx, progress)
	if err != nil {
		return err
	}
	plan, err := c.plan(set)
	if err != nil {
		return err
	}
	m, err := watch(findServer(c.ServerPID, c.Target))
	if err != nil {
		return err
	}
	file := load.File{Schema: load.Schema, Arm: c.Arm}
	var report monitor.Report
	if m != nil {
		defer func() { report = m.Stop() }() // also after an error
		_, _ = m.Memory("start")             // a server of another user: CPU only
	} else {
		fmt.Fprintln(progress, "no rankd server is known at the target: its CPU time and memory are not measured (--server-pid)")
	}
	peak := peakRun(plan)
	for i, o := range plan {
		fmt.Fprintf(progress, "run %d of %d, about %v left\n", i+1, len(plan), time.Duration(len(plan)-i)*(c.Warmup+c.Duration))
		if m != nil {
			o.CPU = m.CPU
			if i == peak {
				o.Middle = func() { _, _ = m.Memory("peak") }
			}
		}
		var r *load.Result
		if r, err = load.Run(ctx, o); err != nil {
			break // what was measured before is kept
		}
		file.Results = append(file.Results, r)
		fmt.Fprintln(out, r.Summary())
	}
	if m != nil {
		_, _ = m.Memory("end")
		report = m.Stop()
		file.Memory = report.Memory
	}
	if len(file.Results) == 0 {
		return err
	}
	return errors.Join(err, c.write(&file, &report), wrongReplies(file.Results), unanswered(file.Results))
}

func (c *loadConfig) write(file *load.File, report *monitor.Report) error {
	var errs []error
	if c.JSON != "" {
		errs = append(errs, load.WriteJSON(c.JSON, file))
	}
	if c.Monitor != "" {
		errs = append(errs, load.WriteJSON(c.Monitor, report))
	}
	return errors.Join(errs...)
}

// peakRun is the run in which memory is likely to be at its peak: the largest one of the most callers or the highest rate.
func peakRun(plan []load.Options) int {
	size := func(o load.Options) float64 { return max(float64(o.Callers), o.Rate) * float64(o.Requests.Rows) }
	best := 0
	for i := range plan {
		if size(plan[i]) > size(plan[best]) {
			best = i
		}
	}
	return best
}

// wrongReplies is an error if a reply was wrong.
func wrongReplies(results []*load.Result) error {
	var wrong []string
	for _, r := range results {
		if r.Mismatches > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d replies were wrong: %s", r.Title(), r.Mismatches, r.FirstMismatch))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(slices.Compact(wrong), "; "))
}

// unanswered is an error if a run got no reply that was right, or lost its server. Refusals of a server that is offered too much are none.
func unanswered(results []*load.Result) error {
	var errs []error
	for _, r := range results {
		switch {
		case r.OK == 0 && r.Mismatches == 0:
			errs = append(errs, fmt.Errorf("%s: nothing was answered: %d timed requests, %d failed, %d without a reply", r.Title(), r.Timed, r.Failed, r.NoReply))
		case r.Lost:
			errs = append(errs, fmt.Errorf("%s: the server went away: there was no connection to it at the end", r.Title()))
		}
	}
	return errors.Join(errs...)
}

// writable finds out before a measurement whether its file can be written; path may be empty.
func writable(flag, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rankd-bench-*")
	if err != nil {
		cause := err
		if wrapped := errors.Unwrap(err); wrapped != nil { // the name of our file says nothing
			cause = wrapped
		}
		return withCode(fmt.Errorf("check --%s: got %s, want a file in a directory that can be written to: %w", flag, path, cause), config.ExitBadConfig)
	}
	err = errors.Join(f.Close(), os.Remove(f.Name()))
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		err = errors.Join(err, fmt.Errorf("got the directory %s, want a file", path))
	}
	if err != nil {
		return withCode(fmt.Errorf("check --%s: %w", flag, err), config.ExitBadConfig)
	}
	return nil
}
