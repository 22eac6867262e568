package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rankd/bench/exam"
	"rankd/bench/monitor"
	"rankd/internal/config"
	"rankd/model"
	"rankd/supervisor"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure servers under load, and check every reply",
		Long: `Measure servers on this machine. Every reply is compared with the score that its request must get.

  rankd bench load --model demo                      load a server that runs: rates and latencies
  rankd bench capacity --model demo --executor sim   the highest rate within a latency
  rankd bench suite --smoke                          compare with other servers, in minutes

Give server and client processors of their own (--server-cpus, taskset) for figures that mean something.`,
		GroupID: "tools",
	}
	cmd.AddCommand(newBenchLoad(), newBenchCapacity(), newBenchCompare(), newBenchReport(), newBenchNullServer(), newBenchMonitor(), newBenchSuite(), newBenchOverload(), newBenchSoak(), newBenchAblation())
	return cmd
}

// tool gives a command its flags and runs it until it ends or a signal comes; run gets a context that ends then.
func tool(cmd *cobra.Command, run func(ctx context.Context, out, progress io.Writer) error, structs ...any) *cobra.Command {
	cmd.Args = arguments()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settle(cmd, func() error { return checkAll(structs...) }); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
		defer stop()
		if err := run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("%s: %w", commandName(cmd), err)
		}
		return nil
	}
	bind(cmd, structs...)
	return cmd
}

// examConfig is what a person may set about the requests.
type examConfig struct {
	Model    string `flag:"model" unit:"directory" help:"directory of the model's bundle, from which requests and expected scores are made"`
	Executor string `flag:"executor" oneof:"sim|pjrt" help:"what the server computes: the score of the simulated accelerator, or the model's network"`
	Protocol string `flag:"protocol" oneof:"rankd|kserve" help:"service that is called"`
	Form     string `flag:"form" oneof:"auto|packed|tables" help:"ids as one tensor or as one a table; auto: packed where the model allows it"`
	IDs      string `flag:"ids" help:"how ids are drawn: uniform, or zipf:S with S above 1"`
	Workload string `flag:"workload" oneof:"independent|shared-user" help:"what the examples of a request have to do with each other: nothing, or they are candidates for one user, whose inputs come once a request"`
	IDBytes  int    `flag:"id-bytes" min:"4" max:"8" unit:"bytes" help:"width of an id: 4 or 8"`
	Examples int    `flag:"examples" min:"1" help:"distinct examples"`
	Seed     int64  `flag:"seed" min:"0" help:"of requests and schedules"`
	CacheDir string `flag:"cache-dir" unit:"directory" help:"where expected scores are kept between runs; empty: nowhere"`
}

func defaultExam() examConfig {
	d := exam.Default()
	return examConfig{Executor: d.Executor, Protocol: d.Protocol, Form: "auto", IDs: d.IDs, Workload: d.Workload, IDBytes: d.Width, Examples: d.Examples, Seed: 1}
}

// open makes the examples and their scores.
func (c *examConfig) open(ctx context.Context, progress io.Writer) (*exam.Set, error) {
	if c.Model == "" {
		return nil, withCode(errors.New("check --model: got nothing, want the directory of the bundle that is served"), config.ExitBadConfig)
	}
	b, err := model.Open(c.Model)
	if err != nil {
		return nil, err
	}
	o := exam.Options{
		Examples: c.Examples, Seed: uint64(c.Seed), IDs: c.IDs, Executor: c.Executor, Protocol: c.Protocol, Form: c.Form,
		Workload: c.Workload, Width: c.IDBytes, CacheDir: c.CacheDir,
	}
	if o.Form == "auto" {
		o.Form = ""
	}
	began := time.Now()
	s, err := exam.New(ctx, b, o)
	if err == nil {
		fmt.Fprintf(progress, "%d examples with their scores in %.1f s\n", c.Examples, time.Since(began).Seconds())
	}
	return s, err
}

// findServer gives the process of the server: the one named, or the rankd server that listens at the target; 0: unknown.
func findServer(pid int, target string) int {
	if pid != 0 {
		return pid
	}
	if s, err := supervisor.FindState("", "", target); err == nil {
		return s.PID
	}
	return 0
}

// watch starts a monitor of the server, or returns nil if its process is unknown.
func watch(pid int) (*monitor.Monitor, error) {
	if pid == 0 {
		return nil, nil
	}
	return monitor.Start(pid, monitor.Interval)
}
