package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"rankd/bench/compare"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/internal/config"
)

// compareConfig is what a person may set about a comparison.
type compareConfig struct {
	Old      string   `flag:"old" help:"the rankd binary to compare with"`
	New      string   `flag:"new" help:"the rankd binary to be compared"`
	OldFlags []string `flag:"old-flags" help:"more flags of serve for the old build"`
	NewFlags []string `flag:"new-flags" help:"more flags of serve for the new build; with --old and --new the same, settings are compared"`
	Rounds   int      `flag:"rounds" min:"2" max:"1000" help:"interleaved rounds; below 6 there is no verdict, and 20 or more are better"`
	Callers  int      `flag:"callers" min:"1" help:"callers of the closed loop"`
}

const compareLong = `Compare two builds on this machine. In each round the old build, the new one, and the old one once
more are started, loaded and ended, in an order that changes. The second run of the old build shows
how much the machine itself varies: a difference that is no larger is not claimed.`

func newBenchCompare() *cobra.Command {
	e := defaultExam()
	p := pacedConfig{Rows: 1, Connections: 64, Threads: 1, Duration: 3 * time.Second, Warmup: time.Second}
	c := compareConfig{Rounds: 20, Callers: 64}
	return tool(&cobra.Command{
		Use:     "compare --model DIR --old BIN --new BIN",
		Short:   "tell whether one build is faster than another",
		Long:    compareLong,
		Example: "  rankd bench compare --model demo --old /usr/bin/rankd --new .build/bin/rankd",
	}, func(ctx context.Context, out, progress io.Writer) error { return c.run(ctx, &e, &p, out, progress) }, &e, &p, &c)
}

func (c *compareConfig) run(ctx context.Context, e *examConfig, p *pacedConfig, out, progress io.Writer) error {
	if c.Old == "" || c.New == "" {
		return withCode(errors.New("check --old and --new: got nothing, want two rankd binaries"), config.ExitBadConfig)
	}
	for flag, path := range map[string]string{"old": c.Old, "new": c.New} {
		if _, err := exec.LookPath(path); err != nil {
			return withCode(fmt.Errorf("check --%s: got %s, want a rankd binary: %w", flag, path, err), config.ExitBadConfig)
		}
	}
	if err := writable("json", p.JSON); err != nil {
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
	report, err := compare.Run(ctx, compare.Options{
		Rounds:   c.Rounds,
		Progress: func(text string) { fmt.Fprintln(progress, text) },
		Run: func(ctx context.Context, build string, round int) (*load.Result, error) {
			binary, flags := c.Old, c.OldFlags
			if build == compare.New {
				binary, flags = c.New, c.NewFlags
			}
			s, err := p.launch(ctx, binary, e, flags...)
			if err != nil {
				return nil, err
			}
			o := p.options(s.Target, requests)
			o.Callers, o.Seed, o.CPU = c.Callers, uint64(round), monitor.NewTree(s.PID).CPU
			r, err := load.Run(ctx, o)
			return r, errors.Join(err, s.Stop())
		},
	})
	if len(report.Rounds) == 0 { // nothing to show, and nothing to replace earlier results with
		return err
	}
	report.OldBinary, report.NewBinary = c.Old, c.New
	fmt.Fprint(out, report.Summary())
	if p.JSON != "" {
		err = errors.Join(err, load.WriteJSON(p.JSON, report))
	}
	return err
}
