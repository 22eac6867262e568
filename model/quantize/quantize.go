package quantize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/reference"
)

// Options say what becomes of which tables.
type Options struct {
	Dir    string      // of the new bundle
	To     dtype.DType // one of model.RowDTypes
	Tables []string    // names; empty: all
	// Score runs the model's network on packed rows, [rows][array]bytes, and gives its columns for each; nil: the reference network
	// does it, for models that it knows.
	Score func(ctx context.Context, b *model.Bundle, rows [][][]byte) ([][]float64, error)
	// Progress, if not nil, is called with the bytes read so far and all of them.
	Progress func(done, total int64)
}

// Run makes the bundle o.Dir from b.
func Run(ctx context.Context, b *model.Bundle, o Options) (_ *model.Bundle, _ *Report, err error) {
	if !slices.Contains(model.RowDTypes(), o.To) {
		return nil, nil, fmt.Errorf("quantize: got row type %v, want one of %v", o.To, model.RowDTypes())
	}
	m := *b.Manifest
	m.Tables = slices.Clone(m.Tables)
	if err := retype(m.Tables, &o); err != nil {
		return nil, nil, err
	}
	if err := apart(b.Dir, o.Dir); err != nil {
		return nil, nil, err
	}
	if err := b.VerifyDigests(ctx, nil); err != nil { // the new bundle has digests of its own, which would make broken bytes good ones
		return nil, nil, err
	}
	w, err := model.Create(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	r := &Report{Tables: make([]TableError, len(m.Tables))}
	if err := tables(ctx, w, b, &m, r, &o); err != nil {
		return nil, nil, err
	}
	if err := others(ctx, w, b); err != nil {
		return nil, nil, err
	}
	if r.Scores, err = golden(ctx, w, b, &m, &o); err != nil {
		return nil, nil, err
	}
	made, err := w.Commit(&m)
	return made, r, err
}

// retype sets the row type of the tables that were named; of all, if none was. Tables whose rows would not get fewer bytes keep
// theirs, or are refused if they were named.
func retype(list []model.Table, o *Options) error {
	var known []string
	changed := false
	for i := range list {
		t := &list[i]
		known = append(known, t.Name)
		named := slices.Contains(o.Tables, t.Name)
		if !named && len(o.Tables) > 0 {
			continue
		}
		before, after := model.RowBytes(t.RowDType, t.Dim), model.RowBytes(o.To, t.Dim)
		if after < before {
			t.RowDType, changed = o.To, true
		} else if named {
			return fmt.Errorf("quantize: table %q: got rows of %d bytes as %v from %d as %v, want fewer bytes", t.Name, after, o.To, before, t.RowDType)
		}
	}
	for _, name := range o.Tables {
		if !slices.Contains(known, name) {
			return fmt.Errorf("quantize: got table %q, the model has %s", name, strings.Join(known, ", "))
		}
	}
	if !changed {
		return fmt.Errorf("quantize: no table gets fewer bytes a row as %v", o.To)
	}
	return nil
}

// apart refuses a new bundle in the old one, whose files it would be among.
func apart(old, made string) error {
	within, err := filepath.Rel(real(old), real(made))
	if err == nil && within != ".." && !strings.HasPrefix(within, ".."+string(filepath.Separator)) {
		return fmt.Errorf("quantize: got the new bundle %q in the old one %q, want a place outside", made, old)
	}
	return nil
}

// real is a path without symbolic links, as far as it exists.
func real(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(real(parent), filepath.Base(path))
}

// tables writes all table files; one may hold several tables.
func tables(ctx context.Context, w *model.Writer, b *model.Bundle, m *model.Manifest, r *Report, o *Options) error {
	files := map[string][]int{}
	p := &model.Meter{Report: o.Progress, Total: b.Manifest.TableBytes()}
	for i := range m.Tables {
		files[m.Tables[i].File] = append(files[m.Tables[i].File], i)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for name, list := range files {
		g.Go(func() error {
			var tensors []model.NamedTensor
			for _, i := range list {
				kind, width := m.Tables[i].Stored()
				tensors = append(tensors, model.NamedTensor{
					Name: m.Tables[i].Tensor, DType: kind, Shape: []int64{m.Tables[i].Rows, width},
					Fill: func(out io.Writer) error { return convert(out, b, m, i, &r.Tables[i], p) },
				})
			}
			return w.AddTensors(ctx, name, tensors)
		})
	}
	return g.Wait()
}

// convert writes the rows of table i.
func convert(out io.Writer, b *model.Bundle, m *model.Manifest, i int, e *TableError, p *model.Meter) (err error) {
	from, to := b.Manifest.Tables[i].RowDType, m.Tables[i].RowDType
	file, x, err := b.OpenTable(i)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	dim, rows := m.Tables[i].Dim, m.Tables[i].Rows
	width, narrow := model.RowBytes(from, dim), model.RowBytes(to, dim)
	was, is, row := make([]float64, dim), make([]float64, dim), make([]byte, narrow)
	squares, scale := 0.0, 0.0
	for n := range rows {
		src := x.Data[n*int64(width):][:width]
		model.Row(was, from, src)
		if from == to {
			copy(row, src)
		} else if err := encode(row, to, was); err != nil {
			return fmt.Errorf("table %q row %d: %w", m.Tables[i].Name, n, err)
		}
		model.Row(is, to, row)
		for k, v := range was {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				e.NotFinite++
				continue
			}
			d := is[k] - v
			e.Max = max(e.Max, math.Abs(d))
			squares, scale = squares+d*d, scale+v*v
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
		if n%1024 == 1023 || n == rows-1 {
			p.Add((n%1024 + 1) * int64(width))
		}
	}
	elements := max(float64(rows)*float64(dim)-float64(e.NotFinite), 1)
	e.Name, e.From, e.To, e.Rows = m.Tables[i].Name, from, to, rows
	e.BytesBefore, e.BytesAfter = b.Manifest.Tables[i].Bytes(), m.Tables[i].Bytes()
	e.RMS, e.Scale = math.Sqrt(squares/elements), math.Sqrt(scale/elements)
	return nil
}

// others copies every file that is neither a table nor the golden requests.
func others(ctx context.Context, w *model.Writer, b *model.Bundle) error {
	done := map[string]bool{model.GoldenFile: true}
	for _, t := range b.Manifest.Tables {
		done[t.File] = true
	}
	for name := range b.Manifest.Digests {
		if done[name] {
			continue
		}
		err := w.Add(ctx, name, func(out io.Writer) error {
			f, err := model.OpenFile(b.Path(name))
			if err != nil {
				return err
			}
			_, err = io.Copy(out, f)
			return errors.Join(err, f.Close())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// golden scores the golden requests with the new tables (I4) and compares.
func golden(ctx context.Context, w *model.Writer, b *model.Bundle, m *model.Manifest, o *Options) (*ScoreError, error) {
	examples, was, err := reference.ReadGolden(b)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	is, err := o.score(ctx, w.Unfinished(m), examples)
	if err != nil {
		return nil, fmt.Errorf("score golden requests: %w", err)
	}
	tensors, err := reference.Golden(m, examples, is)
	if err != nil {
		return nil, err
	}
	return compareScores(was, is), w.AddTensors(ctx, model.GoldenFile, tensors)
}

// score looks the examples up in the new tables, in float64, and runs the network.
func (o *Options) score(ctx context.Context, b *model.Bundle, examples []reference.Example) (scores [][]float64, err error) {
	l, err := reference.OpenLookup(b)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if o.Score == nil {
		network, err := reference.OpenNetwork(b)
		if err != nil {
			return nil, err
		}
		return reference.Scores(ctx, b.Manifest, l, network, examples)
	}
	rows := make([][][]byte, 0, len(examples))
	for e := range examples {
		vectors, err := l.PoolAll(examples[e].Bags)
		if err != nil {
			return nil, fmt.Errorf("golden request %d: %w", e, err)
		}
		rows = append(rows, reference.PackedRow(b.Manifest, vectors, examples[e].Dense))
	}
	return o.Score(ctx, b, rows)
}
