package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/reference"
)

// Options says what Create makes.
type Options struct {
	Dir      string // where the bundle appears; nothing may be there
	Seed     uint64
	Name     string // default "dlrm-dcnv2"
	Version  string // default "1"
	MaxVocab int64  // rows a table at most; 0: full scale, 104.5 GB
	MaxBatch int    // rows of the largest bucket; default 4096
	Buckets  []int  // default: powers of two up to MaxBatch, and MaxBatch
	Golden   int    // golden requests; 0: 64, negative: none
	Small    bool   // the small architecture instead of the full one

	Pooled dtype.DType // of pooled vectors on their way to the device; default float32

	// Progress, if not nil, is called with the bytes written so far and in all (tables and weights). Calls may overlap.
	Progress func(done, total int64)
	// Scored, if not nil, is called with the golden requests scored so far and in all. Calls may overlap.
	Scored func(done, total int64)
}

func (o *Options) setDefaults() {
	o.Name = cmp.Or(o.Name, "dlrm-dcnv2")
	o.Version = cmp.Or(o.Version, "1")
	o.MaxBatch = cmp.Or(o.MaxBatch, 4096)
	o.Golden = cmp.Or(o.Golden, 64)
	o.Pooled = cmp.Or(o.Pooled, dtype.Float32)
	if o.Buckets == nil {
		o.Buckets = PowersOfTwo(o.MaxBatch)
	}
}

// PowersOfTwo returns 1, 2, 4, ... up to maxBatch, and maxBatch itself.
func PowersOfTwo(maxBatch int) []int {
	var buckets []int
	for b := 1; b < maxBatch; b *= 2 {
		buckets = append(buckets, b)
	}
	return append(buckets, maxBatch)
}

// Create makes a DLRM-DCNv2 bundle. The error wraps os.ErrExist if there is something at o.Dir, and joins all violations
// if the options make no valid model.
func Create(ctx context.Context, o Options) (*model.Bundle, error) {
	o.setDefaults()
	if o.MaxVocab < 0 {
		return nil, fmt.Errorf("create demo model: max vocab: got %d, want 0 (full scale) or more", o.MaxVocab)
	}
	arch := fullArchitecture()
	if o.Small {
		arch = smallArchitecture()
	}
	m := o.manifest(arch)
	weights := arch.weights()
	meter := &model.Meter{Report: o.Progress, Total: m.TableBytes() + weightBytes(weights)}
	w, err := model.Create(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("create demo model: %w", err)
	}
	b, err := func() (*model.Bundle, error) {
		if err := checkSpace(filepath.Dir(o.Dir), meter.Total); err != nil {
			return nil, err
		}
		if err := addTables(ctx, w, m, o.Seed, meter); err != nil {
			return nil, err
		}
		if err := addWeights(ctx, w, weights, o.Seed, meter); err != nil {
			return nil, err
		}
		if err := w.AddText(ctx, programFile, arch.programText(m)); err != nil {
			return nil, err
		}
		if o.Golden > 0 {
			if err := o.addGolden(ctx, w, m); err != nil {
				return nil, err
			}
		}
		return w.Commit(m)
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create demo model: %w", err), w.Abort())
	}
	return b, nil
}

// checkSpace refuses at once what would fail after minutes of writing.
func checkSpace(dir string, need int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("read free space of %q: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); uint64(need) > free {
		return fmt.Errorf("free space in %q: got %d bytes, want %d: %w", dir, free, need, unix.ENOSPC)
	}
	return nil
}

func weightBytes(ws []weight) int64 {
	n := int64(0)
	for _, w := range ws {
		n += 4 * elements(w.shape)
	}
	return n
}

func elements(shape []int) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= int64(s)
	}
	return n
}

// addTables writes one file a table, the largest first so that no core is left with one at the end. A file is made and
// hashed by one goroutine: with tables of similar size that is enough to keep the disk busy.
func addTables(ctx context.Context, w *model.Writer, m *model.Manifest, seed uint64, meter *model.Meter) error {
	order := make([]int, len(m.Tables))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.Tables[b].Rows, m.Tables[a].Rows) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range order {
		t := &m.Tables[i]
		g.Go(func() error {
			// Pooled vectors have about the same variance whatever the hotness: 1 for a sum of independent rows.
			width := float32(math.Sqrt(3 / float64(t.Hotness)))
			rows := newStream(seed, "table "+t.Name)
			return w.AddTensors(ctx, t.File, []model.NamedTensor{{
				Name: t.Tensor, DType: dtype.Float32, Shape: []int64{t.Rows, int64(t.Dim)},
				Fill: func(out io.Writer) error { return writeUniform(out, rows, t.Rows*int64(t.Dim), width, meter) },
			}})
		})
	}
	return g.Wait()
}

func addWeights(ctx context.Context, w *model.Writer, weights []weight, seed uint64, meter *model.Meter) error {
	list := make([]model.NamedTensor, len(weights))
	for i, p := range weights {
		shape := make([]int64, len(p.shape))
		for k, n := range p.shape {
			shape[k] = int64(n)
		}
		numbers := newStream(seed, "weight "+p.name)
		list[i] = model.NamedTensor{
			Name: p.name, DType: dtype.Float32, Shape: shape,
			Fill: func(out io.Writer) error {
				return writeUniform(out, numbers, elements(p.shape), float32(p.width), meter)
			},
		}
	}
	return w.AddTensors(ctx, weightsFile, list)
}

// writeUniform writes n float32 numbers in pieces of constant size (I2).
func writeUniform(out io.Writer, s stream, n int64, width float32, meter *model.Meter) error {
	const piece = 1 << 16 // numbers, even
	buf := make([]byte, 4*min(n+n%2, piece))
	for first := int64(0); first < n; first += piece {
		count := min(piece, n-first)
		s.fill(buf[:4*(count+count%2)], uint64(first), width)
		if _, err := out.Write(buf[:4*count]); err != nil {
			return err
		}
		meter.Add(4 * count)
	}
	return nil
}

// addGolden scores seeded requests with the reference implementation, from the files just written.
func (o *Options) addGolden(ctx context.Context, w *model.Writer, m *model.Manifest) error {
	b := w.Unfinished(m)
	network, err := reference.OpenDCNv2(b)
	if err != nil {
		return err
	}
	meter := &model.Meter{Report: o.Scored, Total: int64(o.Golden)}
	forward := func(pooled [][]float64, dense [][]float32) []float64 {
		defer meter.Add(1)
		return network.Forward(pooled, dense)
	}
	return addGolden(ctx, w, m, forward, goldenExamples(m, o.Seed, o.Golden))
}

func addGolden(ctx context.Context, w *model.Writer, m *model.Manifest, network reference.Network, examples []reference.Example) error {
	lookup, err := reference.OpenLookup(w.Unfinished(m))
	if err != nil {
		return err
	}
	scores, err := reference.Scores(ctx, m, lookup, network, examples)
	if err := errors.Join(err, lookup.Close()); err != nil {
		return err
	}
	tensors, err := reference.Golden(m, examples, scores)
	if err != nil {
		return err
	}
	return w.AddTensors(ctx, model.GoldenFile, tensors)
}

// goldenExamples draws ids uniformly and dense features from [0, 1). The first two examples read the first and the last row
// of every table.
func goldenExamples(m *model.Manifest, seed uint64, n int) []reference.Example {
	examples := make([]reference.Example, n)
	for e := range examples {
		x := &examples[e]
		for i := range m.Tables {
			t := &m.Tables[i]
			ids := newStream(seed, "golden "+t.Name)
			bag := reference.Bag{IDs: make([]int64, t.Hotness)}
			for k := range bag.IDs {
				switch {
				case k == 0 && e == 0:
					bag.IDs[k] = 0
				case k == 0 && e == 1:
					bag.IDs[k] = t.Rows - 1
				default:
					bag.IDs[k] = ids.below(uint64(e*t.Hotness+k), t.Rows)
				}
			}
			x.Bags = append(x.Bags, bag)
		}
		for _, d := range m.Dense {
			x.Dense = append(x.Dense, goldenDense(seed, d, e))
		}
	}
	return examples
}

func goldenDense(seed uint64, d model.Dense, e int) []float32 {
	features := newStream(seed, "golden "+d.Name)
	row := make([]float32, d.Width)
	for k := range row {
		row[k] = features.unit(uint64(e*d.Width + k))
	}
	return row
}
