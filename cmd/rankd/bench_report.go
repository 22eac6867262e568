package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rankd/bench/report"
	"rankd/internal/config"
)

// reportConfig says which results are reported.
type reportConfig struct {
	Results string `flag:"results" unit:"directory" help:"directory with <server>/*.json of bench load, capacity*.json of bench capacity, and env.txt"`
}

func newBenchReport() *cobra.Command {
	var c reportConfig
	return tool(&cobra.Command{
		Use:   "report --results DIR",
		Short: "make tables and charts of results",
		Long: `Make REPORT.md, charts (SVG), summary.json and runs.json of the results in a directory, beside them. The
server named "rankd" is compared with the best of those whose names begin with "py".

A directory that has runs.json, suite.json and env.txt of published results instead of the results
themselves gives the same page and charts.`,
		Example: "  rankd bench report --results bench/results/sim",
	}, func(_ context.Context, out, _ io.Writer) error {
		if c.Results == "" {
			return withCode(errors.New("check --results: got nothing, want a directory"), config.ExitBadConfig)
		}
		path, err := report.Write(c.Results)
		if err == nil {
			fmt.Fprintln(out, path)
		}
		return err
	}, &c)
}
