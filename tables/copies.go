package tables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"rankd/model"
)

// Copy is one segment of several with the same tables, each on NUMA nodes of its own. The zero Copy is the only one, wherever the
// kernel takes its pages from.
type Copy struct {
	Label string // at the end of the file's name, so that a start finds the copies that it wants and no others
	Nodes []int  // for its pages: one, or several by turns; empty: anywhere
}

// Acquire attaches complete segments for the bundle where there are any, and otherwise removes what is in their place and makes
// them: one is loaded, the others are copied from one that is complete. The segments come in the order of the copies, at least one. On an
// error nothing is held, and nothing is left of those that were made.
func Acquire(ctx context.Context, b *model.Bundle, o Options, copies ...Copy) ([]*Segment, error) {
	if len(copies) == 0 {
		copies = []Copy{{}}
	}
	list, missing := openCopies(ctx, b.Manifest, o, copies)
	if err := makeCopies(ctx, b, o, copies, list, missing); err != nil {
		for i, s := range list {
			if s != nil && slices.Contains(missing, i) {
				err = errors.Join(err, s.Remove())
			}
			if s != nil {
				err = errors.Join(err, s.Close())
			}
		}
		return nil, err
	}
	return list, nil
}

// openCopies attaches the copies that are there; list has nil for the others, whose places are in missing.
func openCopies(ctx context.Context, m *model.Manifest, o Options, copies []Copy) (list []*Segment, missing []int) {
	list = make([]*Segment, len(copies))
	for i, c := range copies {
		o.Copy = c
		s, err := OpenExisting(ctx, m, o)
		if err == nil {
			list[i] = s
			continue
		}
		if !errors.Is(err, os.ErrNotExist) {
			o.log().LogAttrs(ctx, slog.LevelWarn, "existing tables cannot be used", slog.Any("error", err))
		}
		missing = append(missing, i)
	}
	return list, missing
}

// makeCopies makes those that are missing.
func makeCopies(ctx context.Context, b *model.Bundle, o Options, copies []Copy, list []*Segment, missing []int) error {
	if o.Room != nil {
		for _, i := range missing { // before anything is loaded
			if err := o.Room(copies[i]); err != nil {
				return fmt.Errorf("load tables: %w", err)
			}
		}
	}
	report := o.Progress
	for done, i := range missing {
		o.Copy, o.Progress = copies[i], partOf(report, done, len(missing))
		from := slices.IndexFunc(list, func(s *Segment) bool { return s != nil })
		var err error
		if from < 0 {
			list[i], err = Load(ctx, b, o)
		} else {
			list[i], err = Duplicate(ctx, b.Manifest, list[from], o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// partOf reports the progress of one of several equal parts as that of all.
func partOf(report func(done, total int64), part, parts int) func(done, total int64) {
	if report == nil || parts < 2 {
		return report
	}
	return func(done, total int64) { report(int64(part)*total+done, int64(parts)*total) }
}

// Duplicate makes another copy of a complete segment. What it reads was checked when that one was loaded (I1).
func Duplicate(ctx context.Context, m *model.Manifest, from *Segment, o Options) (*Segment, error) {
	l, err := layoutOf(m)
	if err != nil {
		return nil, err
	}
	if err := from.layout.matches(l); err != nil {
		return nil, fmt.Errorf("copy tables: %w", err)
	}
	name := SegmentName(o.Instance, m.TablesDigest(), o.Copy)
	if err := makeWay(ctx, name, o); err != nil {
		return nil, fmt.Errorf("copy tables: %w", err)
	}
	progress := startMeter(o.Progress, l.dataBytes(), l.dataBytes())
	s, err := load(ctx, &l, name, o, progress, func(ctx context.Context, mem []byte) error {
		return copyChunks(ctx, mem[l.dataOffset:l.used()], from.mapping.Bytes[l.dataOffset:l.used()], o, progress)
	})
	progress.stop(err == nil)
	if err != nil {
		return nil, fmt.Errorf("copy tables: %w", err)
	}
	o.log().LogAttrs(ctx, slog.LevelInfo, "tables copied", slog.String("path", s.Path), slog.String("from", from.Path),
		slog.Int64("bytes", l.dataBytes()), slog.String("pages", s.pages.Mode.String()), slog.Int64("huge_bytes", s.pages.HugeBytes))
	return s, nil
}

// copyChunks copies in parallel. A part counts as copied and checked at once.
func copyChunks(ctx context.Context, dst, src []byte, o Options, progress *meter) error {
	size := o.chunkBytes
	if size <= 0 {
		size = defaultChunk
	}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var g errgroup.Group
	g.SetLimit(workers)
	for off := int64(0); off < int64(len(src)) && ctx.Err() == nil; off += size {
		end := min(off+size, int64(len(src)))
		g.Go(func() error {
			copy(dst[off:end], src[off:end])
			progress.copied.Add(end - off)
			progress.checked.Add(end - off)
			if o.afterChunk != nil {
				o.afterChunk()
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}
