package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rankd/bench/load"
	"rankd/bench/monitor"
)

// monitorConfig is what a person may set about the monitor.
type monitorConfig struct {
	PID      int           `flag:"pid" min:"1" help:"root of the processes to watch"`
	Interval time.Duration `flag:"interval" min:"10ms" help:"time between two samples"`
	Duration time.Duration `flag:"duration" min:"0s" help:"how long to watch; 0: until the process ends or a signal comes"`
	JSON     string        `flag:"json" unit:"file" help:"file for the report"`
}

func newBenchMonitor() *cobra.Command {
	c := monitorConfig{Interval: monitor.Interval}
	return tool(&cobra.Command{
		Use:   "monitor --pid PID",
		Short: "watch CPU time and memory of a process and all below it",
		Long: `Watch CPU seconds and resident memory of a process and all its descendants. Exact memory (PSS, and
hugetlb pages once) is read at the start and at the end only, since reading it disturbs the
processes.`,
		Example: `  rankd bench monitor --pid "$(pgrep -o -x rankd)" --duration 30s`,
	}, func(ctx context.Context, out, _ io.Writer) error { return c.run(ctx, out) }, &c)
}

func (c *monitorConfig) run(ctx context.Context, out io.Writer) error {
	if err := writable("json", c.JSON); err != nil {
		return err
	}
	m, err := monitor.Start(c.PID, c.Interval)
	if err != nil {
		return err
	}
	if c.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration)
		defer cancel()
	}
	_, err = m.Memory("start")
	if err == nil {
		err = waitForEnd(ctx, m)
	}
	_, _ = m.Memory("end") // gone, if that is why we end
	report := m.Stop()
	last := report.Samples[len(report.Samples)-1]
	fmt.Fprintf(out, "%.2f CPU seconds in %.1f s, %d processes, peak memory (PSS and hugetlb) %.1f MiB\n",
		last.CPU-report.Samples[0].CPU, last.At, len(last.Processes), mib(report.PeakMemory()))
	for _, p := range last.Processes {
		fmt.Fprintf(out, "  %7d %-28s %9.2f CPU s %10.1f MiB resident\n", p.PID, p.Name, p.CPU, mib(p.RSS))
	}
	if c.JSON != "" {
		err = errors.Join(err, load.WriteJSON(c.JSON, report))
	}
	return err
}

// waitForEnd returns when ctx ends or the process is gone.
func waitForEnd(ctx context.Context, m *monitor.Monitor) error {
	tick := time.NewTicker(monitor.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := m.CPU(); err != nil {
				return nil
			}
		}
	}
}
