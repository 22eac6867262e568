package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rankd/deviceowner/device"
	"rankd/deviceowner/executor"
	"rankd/internal/config"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/quantize"
)

// quantizeConfig is what a person may set about narrower rows.
type quantizeConfig struct {
	DType    string   `flag:"dtype" oneof:"float16|bfloat16|int8" help:"how rows are stored; int8: a byte an element, with scale and bias a row"`
	Tables   []string `flag:"tables" help:"names of the tables; empty: all"`
	Platform string   `flag:"platform" oneof:"cpu|cuda|tpu" help:"which PJRT plugin scores the golden requests"`
	Plugin   string   `flag:"plugin" unit:"file" help:"path of the PJRT plugin; empty: the installed one of the platform"`
}

func newQuantize() *cobra.Command {
	c := quantizeConfig{DType: "int8", Platform: "cpu"}
	cmd := &cobra.Command{
		Use:   "quantize DIR NEW",
		Short: "make a bundle with narrower table rows, and say what that costs",
		Long: `Make the bundle NEW from the one in DIR, with table rows in fewer bits: a half or about a quarter of
the memory, and faster lookups. Rows are widened during the lookup; pooled vectors and programs stay
float32.

The report compares the elements of each table, and the scores of the golden requests, with those of
DIR. NEW keeps the golden requests with the scores that its own tables give.`,
		Example: "  rankd model quantize demo demo-int8 --dtype int8\n  rankd model quantize demo demo-mixed --dtype float16 --tables cat_0,cat_9",
		Args:    arguments("DIR", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(cmd, func() error { return config.Check(&c) }); err != nil {
				return err
			}
			if err := c.run(cmd.Context(), args[0], args[1], cmd.ErrOrStderr(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("quantize model: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c)
	return cmd
}

func (c *quantizeConfig) run(ctx context.Context, from, to string, progress, out io.Writer) error {
	b, err := model.Open(from)
	if err != nil {
		return err
	}
	d, err := dtype.Parse(c.DType)
	if err != nil {
		return err
	}
	line := newProgressLine(progress, "writing "+to)
	_, report, err := quantize.Run(ctx, b, quantize.Options{
		Dir: to, To: d, Tables: c.Tables, Progress: line.bytes,
		Score: func(ctx context.Context, b *model.Bundle, rows [][][]byte) (_ [][]float64, err error) {
			exec, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: c.Platform, Plugin: c.Plugin})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, exec.Close()) }()
			return scoreRows(ctx, exec, b.Manifest, rows)
		},
	})
	line.end()
	if err != nil {
		return err
	}
	if err := report.Write(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "made %s; serve it with rankd serve --model %s\n", to, to)
	return nil
}

// scoreRows runs packed rows, [rows][array]bytes, in batches of one bucket.
func scoreRows(ctx context.Context, exec executor.Executor, m *model.Manifest, rows [][][]byte) ([][]float64, error) {
	bucket := m.Buckets[0]
	for _, n := range m.Buckets {
		if n <= len(rows) && n <= 256 { // large ones take long on a CPU
			bucket = n
		}
	}
	if err := exec.Compile(ctx, bucket); err != nil {
		return nil, err
	}
	batch := &executor.Batch{Bucket: bucket, Scores: make([]byte, bucket*m.ScoreBytes())}
	for _, p := range m.Packed {
		array, err := unix.Mmap(-1, 0, bucket*p.Stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil, fmt.Errorf("map a batch of %d rows: %w", bucket, err)
		}
		defer func() { _ = unix.Munmap(array) }() // after the last batch is done
		batch.Arrays = append(batch.Arrays, array)
	}
	var scores [][]float64
	for first := 0; first < len(rows); first += bucket {
		batch.Rows = min(bucket, len(rows)-first)
		for r := range batch.Rows {
			for a, p := range m.Packed {
				copy(batch.Arrays[a][r*p.Stride:], rows[first+r][a])
			}
		}
		done := make(chan error, 1)
		if err := exec.Launch(batch, func(err error) { done <- err }); err != nil {
			return nil, err
		}
		if err := <-done; err != nil {
			return nil, err
		}
		for r := range batch.Rows {
			scores = append(scores, floatsOf(batch.Scores[r*m.ScoreBytes():][:m.ScoreBytes()]))
		}
	}
	return scores, nil
}

func floatsOf(b []byte) []float64 {
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out
}
