package tables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"rankd/internal/hugemem"
	"rankd/model"
)

// Load makes a new segment from a bundle: allocates it, copies the tables in parallel, checks every file's SHA-256 against
// the manifest, and publishes it last. An unusable file of the same name is removed first; one that another process holds is
// ErrBusy. On any error nothing is left; a file that differs from its digest is a *DigestError, missing room a
// *hugemem.RoomError.
func Load(ctx context.Context, b *model.Bundle, o Options) (*Segment, error) {
	l, err := layoutOf(b.Manifest)
	if err != nil {
		return nil, err
	}
	if err := checkInstance(o.Instance); err != nil {
		return nil, err
	}
	digest := b.Manifest.TablesDigest()
	name := SegmentName(o.Instance, digest, o.Copy)
	if err := makeWay(ctx, name, o); err != nil {
		return nil, fmt.Errorf("load tables: %w", err)
	}
	src, err := openSources(b)
	if err != nil {
		return nil, fmt.Errorf("load tables: %w", err)
	}
	progress := startMeter(o.Progress, l.dataBytes(), src.bytes())
	s, err := load(ctx, &l, name, o, progress, func(ctx context.Context, mem []byte) error {
		return src.copyAll(ctx, mem, &l, o, progress)
	})
	progress.stop(err == nil)
	if err := errors.Join(err, src.close()); err != nil {
		if s != nil {
			err = errors.Join(err, s.Remove(), s.Close())
		}
		return nil, fmt.Errorf("load tables: %w", err)
	}
	o.log().LogAttrs(ctx, slog.LevelInfo, "tables loaded", slog.String("path", s.Path), slog.String("digest", digest),
		slog.Int64("bytes", l.dataBytes()), slog.String("pages", s.pages.Mode.String()), slog.Int64("huge_bytes", s.pages.HugeBytes))
	return s, nil
}

// makeWay removes what stands under the name that is to be made.
func makeWay(ctx context.Context, name string, o Options) error {
	for _, dir := range hugemem.Dirs(o.Dir) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		reason, err := reclaim(path, "")
		if err != nil {
			return fmt.Errorf("remove %q: %w", path, err)
		}
		if reason == "" {
			return fmt.Errorf("remove %q: %w", path, ErrBusy)
		}
		o.log().LogAttrs(ctx, slog.LevelInfo, "removed tables left by a former run", slog.String("path", path), slog.String("reason", reason))
	}
	return nil
}

// load makes a new file, has the tables filled in, and opens it for use.
func load(ctx context.Context, l *layout, name string, o Options, progress *meter, fill func(ctx context.Context, mem []byte) error) (*Segment, error) {
	f, err := hugemem.Create(ctx, hugemem.Options{
		Name: name, Dir: o.Dir, Size: l.used(), Named: true, Want: o.Want, Nodes: o.Copy.Nodes, Log: o.Log,
		Progress: func(done, _ int64) { progress.allocated.Store(done) },
	})
	if err != nil {
		return nil, err
	}
	path := f.Path
	l.fileBytes = f.Size
	err = flock(f.File, unix.LOCK_EX)
	if err == nil {
		copy(f.Mapping.Bytes, l.encode()) // the magic is still 0
		err = fill(ctx, f.Mapping.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove(), f.Close())
	}
	publish(f.Mapping.Bytes)
	// From "being loaded" to "in use" without a moment of neither: the lock is shared before the other descriptor takes it.
	err = flock(f.File, unix.LOCK_SH)
	var s *Segment
	if err == nil {
		s, err = openReady(ctx, path, l)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove(), f.Close())
	}
	s.Loaded = true
	err = f.Close()
	s.lock(ctx, o.log()) // not before the loader's lock on the same pages is gone: both count against the limit
	return s, err
}

// copyAll copies every table and checks every file. Files are taken in order and their checks run beside their copies, so
// that a file is read from disk once.
func (src *sources) copyAll(ctx context.Context, mem []byte, l *layout, o Options, progress *meter) error {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers + 1)
	for _, file := range src.files {
		g.Go(func() error { return file.check(ctx, progress) })
		for _, t := range file.tables {
			t := tableCopy{dst: mem[l.tables[t.index].offset:], src: t.data, layout: l.tables[t.index]}
			for first := int64(0); first < t.layout.rows; first += t.chunkRows(o.chunkBytes) {
				if ctx.Err() != nil {
					break // the reason is in the group
				}
				g.Go(func() error { return t.chunk(ctx, first, o, progress) })
			}
		}
	}
	return g.Wait()
}
