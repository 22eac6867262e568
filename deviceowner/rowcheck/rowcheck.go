package rowcheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"rankd/deviceowner/executor"
	"rankd/internal/dtype"
	"rankd/model"
)

var (
	// ErrDependent is wrapped when a row's score depends on other rows, on its place or on the padding.
	ErrDependent = errors.New("program does not treat rows independently")
	// ErrConstant is wrapped when all rows have the same score, so that nothing can be shown.
	ErrConstant = errors.New("scores do not depend on the rows")
	// ErrNotFinite is wrapped when ordinary rows get a score that is NaN or infinite.
	ErrNotFinite = errors.New("scores of ordinary rows are not finite")
)

// Layout is the form of a batch.
type Layout struct {
	Arrays     []model.PackedArray
	ScoreBytes int   // bytes of scores a row, float32 columns
	Buckets    []int // the buckets to check
}

// LayoutOf takes everything from a manifest.
func LayoutOf(m *model.Manifest) Layout {
	return Layout{Arrays: m.Packed, ScoreBytes: m.ScoreBytes(), Buckets: m.Buckets}
}

// Options tune a check. Zero values mean the defaults.
type Options struct {
	Seed            uint64           // of rows and permutations
	Tolerance       float64          // deviation within a bucket, 1e-6
	BucketTolerance float64          // deviation between buckets, 1e-4
	Progress        func(bucket int) // called before each bucket; may be nil
}

// Report is what a check measured.
type Report struct {
	Scale   float64 // standard deviation of the random floats in the rows
	Buckets []Bucket
}

// Bucket is the report of one bucket. Deviations are as in the package comment.
type Bucket struct {
	Rows     int
	BitEqual bool    // permuted and padded runs gave the base run's bits
	Permuted float64 // largest deviation of a permuted run
	Padded   float64 // largest deviation of a padded run
	Across   float64 // largest deviation from the bucket before; 0 for the first
}

// scales are the sizes of random values that are tried: a network that saturates for large ones may not for small ones.
var scales = []float64{1, 0.1, 0.01}

// Run compiles the buckets and checks each. The report holds the buckets that were finished, also beside an error.
func Run(ctx context.Context, exec executor.Executor, l Layout, o Options) (Report, error) {
	if o.Tolerance == 0 {
		o.Tolerance = 1e-6
	}
	if o.BucketTolerance == 0 {
		o.BucketTolerance = 1e-4
	}
	l.Buckets = slices.Compact(slices.Sorted(slices.Values(l.Buckets)))
	if len(l.Buckets) == 0 || l.Buckets[0] < 1 || l.ScoreBytes < 4 || l.ScoreBytes%4 != 0 {
		return Report{}, fmt.Errorf("check rows: got buckets %v and %d score bytes a row, want positive buckets and a multiple of 4", l.Buckets, l.ScoreBytes)
	}
	for _, b := range l.Buckets {
		if err := exec.Compile(ctx, b); err != nil {
			return Report{}, fmt.Errorf("check rows: %w", err)
		}
	}
	c, err := newCheck(ctx, exec, l, o)
	if err != nil {
		return Report{}, err
	}
	defer c.close()
	if err := c.chooseScale(); err != nil {
		return c.report, err
	}
	for _, b := range l.Buckets {
		if o.Progress != nil {
			o.Progress(b)
		}
		r, err := c.bucket(b)
		if err != nil {
			return c.report, fmt.Errorf("check rows of bucket %d: %w", b, err)
		}
		c.report.Buckets = append(c.report.Buckets, r)
	}
	return c.report, nil
}

// check is a check under way.
type check struct {
	ctx    context.Context
	exec   executor.Executor
	layout Layout
	o      Options
	rng    *rand.Rand
	report Report

	rows   [][]byte // per array: the random rows, as many as the largest bucket
	work   [][]byte // per array: what is launched
	scores []byte
	stuck  bool // a batch is still in flight: its memory must stay

	previous []float32 // scores of the first rows in the bucket before
}

// chooseScale draws rows until scores differ from row to row, with the largest bucket that is at least 2, or two runs of
// bucket 1.
func (c *check) chooseScale() error {
	bucket := c.layout.Buckets[len(c.layout.Buckets)-1]
	if i := slices.IndexFunc(c.layout.Buckets, func(b int) bool { return b > 1 }); i >= 0 {
		bucket = c.layout.Buckets[i]
	}
	for _, scale := range scales {
		c.report.Scale = scale
		c.draw(scale)
		scores, err := c.base(bucket)
		if err != nil {
			return fmt.Errorf("check rows of bucket %d: %w", bucket, err)
		}
		if bucket == 1 {
			c.draw(scale)
			more, err := c.base(1)
			if err != nil {
				return fmt.Errorf("check rows of bucket 1: %w", err)
			}
			scores = append(scores, more...)
		}
		if differ(scores, c.columns()) {
			return nil
		}
	}
	return fmt.Errorf("check rows of bucket %d: %w", bucket, ErrConstant)
}

// differ reports whether some column has two values among the rows.
func differ(scores []float32, columns int) bool {
	for i := columns; i < len(scores); i++ {
		if scores[i] != scores[i%columns] {
			return true
		}
	}
	return false
}

func (c *check) columns() int { return c.layout.ScoreBytes / 4 }

// bucket does all runs of one bucket.
func (c *check) bucket(bucket int) (Bucket, error) {
	r := Bucket{Rows: bucket, BitEqual: true}
	want, err := c.base(bucket)
	if err != nil {
		return r, err
	}
	for i, s := range want {
		if !finite(s) {
			return r, fmt.Errorf("%w: got %v for row %d", ErrNotFinite, s, i/c.columns())
		}
	}
	if len(c.previous) > 0 {
		r.Across, err = c.compare(want, c.previous, "in this bucket and in the smaller one", c.o.BucketTolerance, nil)
		if err != nil {
			return r, err
		}
	}
	c.previous = want
	if err := c.permuted(&r, want); err != nil {
		return r, err
	}
	return r, c.padded(&r, want)
}

func (c *check) permuted(r *Bucket, want []float32) error {
	if r.Rows == 1 {
		return nil
	}
	order := c.rng.Perm(r.Rows)
	if slices.IsSorted(order) {
		slices.Reverse(order)
	}
	for a, p := range c.layout.Arrays {
		for to, from := range order {
			copy(c.work[a][to*p.Stride:(to+1)*p.Stride], c.rows[a][from*p.Stride:(from+1)*p.Stride])
		}
	}
	got, err := c.launch(r.Rows, r.Rows)
	if err != nil {
		return err
	}
	columns := c.columns()
	moved := make([]float32, len(want))
	for to, from := range order {
		copy(moved[to*columns:(to+1)*columns], want[from*columns:(from+1)*columns])
	}
	r.Permuted, err = c.compare(got, moved, "with rows in another order", c.o.Tolerance, r)
	return err
}

func (c *check) padded(r *Bucket, want []float32) error {
	if r.Rows == 1 {
		return nil
	}
	rows := (r.Rows + 1) / 2
	for _, f := range fills {
		for a, p := range c.layout.Arrays {
			n := copy(c.work[a], c.rows[a][:rows*p.Stride])
			f.fill(c.rng, c.work[a][n:r.Rows*p.Stride], p.DType)
		}
		got, err := c.launch(r.Rows, rows)
		if err != nil {
			return fmt.Errorf("padding of %s: %w", f.name, err)
		}
		d, err := c.compare(got, want[:rows*c.columns()], "with padding of "+f.name, c.o.Tolerance, r)
		r.Padded = max(r.Padded, d)
		if err != nil {
			return err
		}
	}
	return nil
}

// compare returns the largest deviation of got from want over the scores that both have.
func (c *check) compare(got, want []float32, how string, tolerance float64, r *Bucket) (worst float64, err error) {
	for i := range min(len(got), len(want)) {
		if math.Float32bits(got[i]) == math.Float32bits(want[i]) {
			continue
		}
		if r != nil {
			r.BitEqual = false
		}
		w := float64(want[i])
		d := math.Abs(float64(got[i])-w) / max(1, math.Abs(w))
		if !(d <= tolerance) { // also for NaN
			return max(worst, d), fmt.Errorf("%w: row %d column %d %s: got %v, want %v (tolerance %g)",
				ErrDependent, i/c.columns(), i%c.columns(), how, got[i], want[i], tolerance)
		}
		worst = max(worst, d)
	}
	return worst, nil
}

// base runs the first rows of the drawn ones in their order.
func (c *check) base(bucket int) ([]float32, error) {
	for a, p := range c.layout.Arrays {
		copy(c.work[a], c.rows[a][:bucket*p.Stride])
	}
	return c.launch(bucket, bucket)
}

// launch runs the work arrays and returns the scores of the first rows.
func (c *check) launch(bucket, rows int) ([]float32, error) {
	b := &executor.Batch{Bucket: bucket, Rows: rows, Scores: c.scores[:bucket*c.layout.ScoreBytes]}
	for a, p := range c.layout.Arrays {
		b.Arrays = append(b.Arrays, c.work[a][:bucket*p.Stride])
	}
	clear(b.Scores)
	done := make(chan error, 1)
	if err := c.exec.Launch(b, func(err error) { done <- err }); err != nil {
		return nil, err
	}
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-c.ctx.Done():
		c.stuck = true
		return nil, c.ctx.Err()
	}
	scores := make([]float32, rows*c.columns())
	for i := range scores {
		scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(b.Scores[4*i:]))
	}
	return scores, nil
}

func finite(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// draw fills the rows with random values of a standard deviation.
func (c *check) draw(scale float64) {
	for a, p := range c.layout.Arrays {
		fillWith(c.rows[a], p.DType, func(d dtype.DType) uint64 { return ordinary(c.rng, d, scale) })
	}
}
