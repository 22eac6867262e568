package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rankd/bench/exam"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/demo"
	"rankd/model/quantize"
)

// bundle is a model that arms serve: the demo, or the demo with narrower rows. Each is examined with its own rows' scores.
type bundle struct {
	id       string // digest
	set      *exam.Set
	requests map[int]*exam.Requests // by size
}

// rowTypes are those of the tables of the arms that are compared, the demo's own ("") first.
func (o *Options) rowTypes() []string {
	list := []string{""}
	for _, a := range o.chosen() {
		if a.rows != "" {
			list = append(list, a.rows)
		}
	}
	return list
}

// dirOf is the directory of the bundle whose rows have a type.
func (o *Options) dirOf(rows string) string {
	if rows == "" {
		return o.Model()
	}
	return o.Model() + "-" + rows
}

// makeModel makes the bundle unless it is there.
func (s *suite) makeModel(ctx context.Context, rows string) (*model.Bundle, error) {
	dir := s.o.dirOf(rows)
	if b, err := model.Open(dir); err == nil {
		return b, nil
	}
	made := dir + ".new"
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(made), os.MkdirAll(filepath.Dir(made), 0o755)); err != nil {
		return nil, fmt.Errorf("make model: %w", err)
	}
	var err error
	if rows == "" {
		fmt.Fprintf(s.o.Progress, "making the model, tables of at most %d rows\n", s.o.MaxVocab)
		_, err = demo.Create(ctx, demo.Options{Dir: made, Seed: 1, MaxVocab: s.o.MaxVocab, MaxBatch: 4096, Golden: 64})
	} else {
		fmt.Fprintf(s.o.Progress, "making its tables of %s\n", rows)
		err = s.narrow(ctx, made, rows)
	}
	if err == nil {
		err = os.Rename(made, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make model: %w", err)
	}
	return model.Open(dir)
}

func (s *suite) narrow(ctx context.Context, dir, rows string) error {
	to, err := dtype.Parse(rows)
	if err != nil {
		return err
	}
	b, err := model.Open(s.o.Model())
	if err != nil {
		return err
	}
	_, _, err = quantize.Run(ctx, b, quantize.Options{Dir: dir, To: to})
	return err
}

// openBundle opens a model and gets the requests and their scores ready.
func (s *suite) openBundle(ctx context.Context, rows string) (*bundle, error) {
	b, err := model.Open(s.o.dirOf(rows))
	if err != nil {
		return nil, err
	}
	x := &bundle{id: b.Manifest.TablesDigest() + b.Manifest.ProgramDigest()}
	if x.set, err = s.openExam(ctx, b); err != nil {
		return nil, err
	}
	x.requests = map[int]*exam.Requests{}
	for _, n := range s.o.Sizes {
		if x.requests[n], err = x.set.Requests(n); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// openExam draws the examples and computes their scores, or finds them where they were kept.
func (s *suite) openExam(ctx context.Context, b *model.Bundle) (*exam.Set, error) {
	o := exam.Default()
	o.IDs, o.Workload, o.CacheDir = s.o.IDs, s.o.Workload, filepath.Join(s.o.CacheDir, "expected")
	if !s.o.Simulated() {
		o.Executor = exam.PJRT
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(s.o.Progress, "%d examples and their scores\n", o.Examples)
	return exam.New(ctx, b, o)
}
