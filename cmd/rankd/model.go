package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"rankd/deviceowner/device"
	"rankd/deviceowner/rowcheck"
	"rankd/internal/config"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/demo"
)

func newModel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "make, check, compile and shrink model bundles",
		Long: `A bundle is a directory with a model: tables, the dense network as StableHLO, weights, and golden
requests with the scores that they must get. Export one from JAX with the Python package
rankd_export, or make one to try:

  rankd model create-demo demo --max-vocab 1000   make it
  rankd model check demo                          see that it is whole, and its rows independent
  rankd model compile demo                        compile ahead of time, so that servers start at once
  rankd serve --model demo`,
		GroupID: "tools",
	}
	cmd.AddCommand(newCreateDemo(), newModelCheck(), newModelCompile(), newModelCompileChild(), newQuantize())
	return cmd
}

// createConfig is what a person may set about a demo model.
type createConfig struct {
	Seed     int64 `flag:"seed" min:"0" help:"of all numbers; the same seed gives the same bytes"`
	MaxVocab int64 `flag:"max-vocab" min:"0" unit:"rows" help:"most rows of one table; 0: full scale, 104.5 GB. 1000 is for trying, 850000 gives 3.2 GB"`
	MaxBatch int   `flag:"max-batch" min:"1" max:"65536" unit:"rows" help:"largest compiled batch"`
	Golden   int   `flag:"golden" min:"1" max:"65536" unit:"rows" help:"golden requests with reference scores"`
	Small    bool  `flag:"small" help:"a small dense network instead of the full one"`

	Pooled string `flag:"pooled-dtype" oneof:"float32|bfloat16" help:"how pooled vectors travel to the device; bfloat16 halves them"`
}

func newCreateDemo() *cobra.Command {
	c := createConfig{Seed: 1, MaxVocab: 1000, MaxBatch: 4096, Golden: 64, Pooled: dtype.Float32.String()}
	cmd := &cobra.Command{
		Use:   "create-demo DIR",
		Short: "make a seeded DLRM-DCNv2 bundle",
		Long: `Make a DLRM-DCNv2 model bundle in DIR: 26 tables of dimension 128, the MLPerf network, golden
requests with float64 reference scores. The numbers are random but seeded; the same flags give
the same bytes. Next: rankd doctor --model DIR, rankd serve --model DIR.`,
		Example: `  rankd model create-demo demo --max-vocab 1000             small tables, to try
  rankd model create-demo small --max-vocab 1000 --small    a network that a CPU runs quickly, too`,
		Args: arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(cmd, func() error { return config.Check(&c) }); err != nil {
				return err
			}
			return c.run(cmd.Context(), args[0], cmd.ErrOrStderr(), cmd.OutOrStdout())
		},
	}
	bind(cmd, &c)
	return cmd
}

func (c *createConfig) run(ctx context.Context, dir string, progress, out io.Writer) error {
	began := time.Now()
	pooled, err := dtype.Parse(c.Pooled)
	if err != nil {
		return err // the flag was checked
	}
	line, golden := newProgressLine(progress, "writing "+dir), newProgressLine(progress, "scoring golden requests")
	b, err := demo.Create(ctx, demo.Options{
		Dir: dir, Seed: uint64(c.Seed), MaxVocab: c.MaxVocab, MaxBatch: c.MaxBatch, Golden: c.Golden, Small: c.Small, Pooled: pooled,
		Progress: line.bytes, Scored: golden.count,
	})
	line.end()
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: remove it, or name another directory", err)
	}
	if err != nil {
		return fmt.Errorf("model create-demo: %w", err)
	}
	var rows int64
	for _, t := range b.Manifest.Tables {
		rows += t.Rows
	}
	fmt.Fprintf(out, "created %s: model %s version %s, %d tables, %d rows, %s of tables, in %.1f s\n",
		dir, b.Manifest.Name, b.Manifest.Version, len(b.Manifest.Tables), rows, config.Bytes(b.Manifest.TableBytes()).Human(), time.Since(began).Seconds())
	return nil
}

// checkConfig is what a person may set about a check.
type checkConfig struct {
	Platform string `flag:"platform" oneof:"cpu|cuda|tpu" help:"which PJRT plugin runs the programs"`
	Plugin   string `flag:"plugin" unit:"file" help:"path of the PJRT plugin; empty: the installed one of the platform"`
	Buckets  []int  `flag:"buckets" unit:"rows" help:"batch sizes to run; empty: the smallest, a middle and the largest up to 256 rows"`
	Seed     int64  `flag:"seed" min:"0" help:"of the rows and permutations"`
	NoRun    bool   `flag:"no-run" help:"check files only; needs no plugin"`
}

func newModelCheck() *cobra.Command {
	c := checkConfig{Platform: "cpu", Seed: 1}
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "check a bundle, and that its programs treat rows independently",
		Long: `Check the bundle in DIR: the manifest, every file's digest, names, types and shapes of all
tensors, and the executables that "rankd model compile" has stored. Then run the programs on random
rows: permuting the rows must permute the scores, and padding filled with NaN must change nothing,
since a batch holds rows of many requests.`,
		Example: `  rankd model check demo            files, and the programs on the CPU plugin
  rankd model check demo --no-run   files only; needs no plugin`,
		Args: arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(cmd, func() error { return config.Check(&c) }); err != nil {
				return err
			}
			if err := c.run(cmd.Context(), args[0], cmd.ErrOrStderr(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("check model: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c)
	return cmd
}

func (c *checkConfig) run(ctx context.Context, dir string, progress, out io.Writer) error {
	b, err := model.Open(dir)
	if err != nil {
		return err
	}
	line := newProgressLine(progress, "reading "+dir)
	err = b.VerifyDigests(ctx, line.bytes)
	line.end()
	if err := errors.Join(err, b.CheckTensors()); err != nil {
		return err
	}
	fmt.Fprintf(out, "files: %d, digests and tensors are right\n", len(b.Manifest.Digests))
	if err := checkExecutables(b, out); err != nil {
		return err
	}
	if c.NoRun {
		return nil
	}
	return c.runPrograms(ctx, b, progress, out)
}

func (c *checkConfig) runPrograms(ctx context.Context, b *model.Bundle, progress, out io.Writer) error {
	exec, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: c.Platform, Plugin: c.Plugin})
	if err != nil {
		return err
	}
	layout := rowcheck.LayoutOf(b.Manifest)
	if layout.Buckets = c.Buckets; len(c.Buckets) == 0 {
		layout.Buckets = someBuckets(b.Manifest.Buckets)
	}
	report, err := rowcheck.Run(ctx, exec, layout, rowcheck.Options{
		Seed:     uint64(c.Seed),
		Progress: func(bucket int) { fmt.Fprintf(progress, "running batches of %d rows\n", bucket) },
	})
	for _, r := range report.Buckets {
		fmt.Fprintf(out, "batch %d: permuted rows differ by %.1g, padding by %.1g, against the batch size before by %.1g\n",
			r.Rows, r.Permuted, r.Padded, r.Across)
	}
	if err := errors.Join(err, exec.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "rows are independent on %s\n", exec.Name())
	return nil
}

// someBuckets picks the first, a middle and the last of the buckets that do not take long to run on a CPU.
func someBuckets(all []int) []int {
	quick := all[:1]
	for i, b := range all {
		if b <= 256 {
			quick = all[:i+1]
		}
	}
	if len(quick) < 3 {
		return quick
	}
	return []int{quick[0], quick[len(quick)/2], quick[len(quick)-1]}
}
