package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rankd/bench/ablation"
	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/overload"
	"rankd/bench/soak"
	"rankd/internal/config"
	"rankd/tables"
)

// trial is what commands that start a server and do something to it have in common.
type trial struct {
	exam     examConfig
	paced    pacedConfig
	binary   string
	set      *exam.Set
	requests map[int]*exam.Requests
}

func (t *trial) open(ctx context.Context, progress io.Writer) (err error) {
	t.requests = map[int]*exam.Requests{}
	if err := writable("json", t.paced.JSON); err != nil {
		return err
	}
	if t.binary, err = os.Executable(); err != nil {
		return fmt.Errorf("find this command: %w", err)
	}
	t.set, err = t.exam.open(ctx, progress)
	return err
}

// sized gives the requests of a size, and makes them once.
func (t *trial) sized(rows int) (r *exam.Requests, err error) {
	if r = t.requests[rows]; r == nil {
		r, err = t.set.Requests(rows)
		t.requests[rows] = r
	}
	return r, err
}

func (t *trial) start(ctx context.Context, flags []string) (*launch.Server, error) {
	return t.paced.launch(ctx, t.binary, &t.exam, flags...)
}

func (t *trial) save(v any) error {
	if t.paced.JSON == "" {
		return nil
	}
	return load.WriteJSON(t.paced.JSON, v)
}

// resumed reads what an interrupted run has left in --json, with --resume. No file is nothing.
func (p *pacedConfig) resumed(into any) error {
	if !p.Resume || p.JSON == "" {
		return nil
	}
	text, err := os.ReadFile(p.JSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("resume from --json %s: %w: remove it to begin anew", p.JSON, err)
	}
	return nil
}

const benchOverloadLong = `Offer more than a server can do: first limited by a slow simulated device, with small queues and with
deadlines, then by clients that take their replies slowly or not at all. What is refused (by name), what
waits, what memory is used, and whether everything is as before afterwards, is reported.`

func newBenchOverload() *cobra.Command {
	t := trial{exam: defaultExam(), paced: pacedConfig{Rows: 1, Connections: 64, Threads: 1, Duration: 5 * time.Second, Warmup: time.Second}}
	return tool(&cobra.Command{
		Use:     "overload --model DIR",
		Short:   "see what a server does with more than it can do",
		Long:    benchOverloadLong,
		Example: "  rankd bench overload --model demo --server-cpus 0 --json overload.json",
	}, func(ctx context.Context, out, progress io.Writer) error {
		if t.exam.Executor != exam.Sim {
			return withCode(errors.New("check --executor: got pjrt, want sim: the device must be slow on purpose"), config.ExitBadConfig)
		}
		if err := t.open(ctx, progress); err != nil {
			return err
		}
		before := &overload.File{}
		if err := t.paced.resumed(before); err != nil {
			return err
		}
		f, err := overload.Run(ctx, overload.Options{
			Before: before.Scenarios, Done: func(f *overload.File) error { return t.save(f) },
			Start: t.start, Load: t.paced.options("", nil), Requests: t.sized, Progress: func(text string) { fmt.Fprintln(progress, text) },
		})
		if err != nil && len(f.Scenarios) == 0 { // nothing to show, and nothing to replace earlier results with
			return err
		}
		fmt.Fprint(out, f.Summary())
		return errors.Join(err, t.save(f))
	}, &t.exam, &t.paced)
}

// soakConfig is what a person may set about a soak.
type soakConfig struct {
	Minutes float64 `flag:"minutes" min:"0.1" max:"10000" help:"how long"`
	Rate    float64 `flag:"rate" min:"0" unit:"requests/s" help:"what is offered; 0: half of what a closed loop of 64 callers does"`
}

func newBenchSoak() *cobra.Command {
	t := trial{exam: defaultExam(), paced: pacedConfig{Rows: 1, Connections: 64, Threads: 1, Duration: time.Second, Warmup: time.Second}}
	c := soakConfig{Minutes: 30}
	var cmd *cobra.Command
	cmd = tool(&cobra.Command{
		Use:     "soak --model DIR",
		Short:   "see whether anything grows under a steady load",
		Long:    "Load a server steadily and fit straight lines to what waits in it, to its latency second by second,\nand to its memory.",
		Example: "  rankd bench soak --model demo --minutes 30 --json soak.json",
	}, func(ctx context.Context, out, progress io.Writer) error {
		if cmd.Flags().Changed("duration") {
			return withCode(fmt.Errorf("check --duration: got %v, want --minutes, which is how long a soak takes", t.paced.Duration), config.ExitBadConfig)
		}
		return c.run(ctx, &t, out, progress)
	}, &t.exam, &t.paced, &c)
	cmd.Flags().Lookup("duration").Hidden = true
	return cmd
}

func (c *soakConfig) run(ctx context.Context, t *trial, out, progress io.Writer) (err error) {
	if err := t.open(ctx, progress); err != nil {
		return err
	}
	requests, err := t.sized(t.paced.Rows)
	if err != nil {
		return err
	}
	server, err := t.start(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	f, err := soak.Run(ctx, soak.Options{
		Server: server, Flags: t.paced.ServerFlags, Load: t.paced.options("", requests), Rate: c.Rate, Time: time.Duration(c.Minutes * float64(time.Minute)),
		Progress: func(text string) { fmt.Fprintln(progress, text) },
	})
	if f == nil {
		return err
	}
	fmt.Fprint(out, f.Summary())
	return errors.Join(err, t.save(f))
}

// ablationConfig is what a person may set about ablations.
type ablationConfig struct {
	Tables []string `flag:"tables" help:"names of tables; empty: all"`
	Rounds int      `flag:"rounds" min:"1" max:"100" help:"times that every setting is measured"`
}

func newBenchAblation() *cobra.Command {
	t := trial{exam: defaultExam(), paced: pacedConfig{Rows: 1, Connections: 64, Threads: 1, Duration: 3 * time.Second, Warmup: time.Second}}
	c := ablationConfig{Rounds: 3}
	return tool(&cobra.Command{
		Use:     "ablation --model DIR",
		Short:   "see what each part of a server brings",
		Long:    "Measure a server with one thing changed at a time: batching policy, timer, buckets, frontends and\nthreads, huge pages.",
		Example: "  rankd bench ablation --model demo --server-cpus 0 --tables batching,timer --json ablations.json",
	}, func(ctx context.Context, out, progress io.Writer) error { return c.run(ctx, &t, out, progress) }, &t.exam, &t.paced, &c)
}

func (c *ablationConfig) run(ctx context.Context, t *trial, out, progress io.Writer) error {
	cpus := len(t.paced.ServerCPUs)
	if cpus == 0 {
		cpus = load.Processors()
	}
	var names []string
	wanted := slices.DeleteFunc(ablation.Tables(cpus, tables.KernelNames()), func(x *ablation.Table) bool {
		names = append(names, x.Name)
		return len(c.Tables) > 0 && !slices.Contains(c.Tables, x.Name)
	})
	for _, name := range c.Tables {
		if !slices.Contains(names, name) {
			return withCode(fmt.Errorf("check --tables: got %q, want some of %q", name, names), config.ExitBadConfig)
		}
	}
	if err := t.open(ctx, progress); err != nil {
		return err
	}
	before := &ablation.File{}
	if err := t.paced.resumed(before); err != nil {
		return err
	}
	ablation.Resume(wanted, before)
	f, err := ablation.Run(ctx, ablation.Options{
		Tables: wanted, Rounds: c.Rounds, Load: t.paced.options("", nil), Requests: t.sized,
		Start: func(ctx context.Context, s *ablation.Setting) (*launch.Server, error) {
			o := t.paced.launchOptions(t.binary, &t.exam, s.Flags...)
			o.SmallPages = s.Small
			return launch.Start(ctx, o)
		},
		Done:     func(f *ablation.File) error { return t.save(f) },
		Progress: func(text string) { fmt.Fprintln(progress, text) },
	})
	fmt.Fprint(out, f.Summary())
	return errors.Join(err, t.save(f))
}
