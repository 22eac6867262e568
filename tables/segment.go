package tables

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"rankd/internal/hugemem"
	"rankd/model"
)

// Options says where a segment lies and how it is loaded.
type Options struct {
	Instance string             // letters, digits, '_' and '-'
	Dir      string             // --shm-dir; empty: the best of hugemem.Dirs
	Want     hugemem.Mode       // Auto: the best pages that can be had
	Copy     Copy               // which copy of the tables, where there are several
	Room     func(c Copy) error // refuses a copy before anything is made, if its nodes have no room; nil: nobody is asked
	Workers  int                // goroutines that copy; 0: GOMAXPROCS
	Log      *slog.Logger       // nil: silent

	// Progress is called at most ten times a second, from one goroutine at a time, with the bytes of tables done and in
	// all. Allocating, copying and checking count for a third each. It never goes back and ends with done == total.
	Progress func(done, total int64)

	chunkBytes int64  // copied between two looks at the context; 0: a good default
	afterChunk func() // tests end the process here
}

// Segment is a complete segment that this process holds for others: a read-only descriptor to pass on, and a mapping that
// keeps its pages locked in memory where that is allowed.
type Segment struct {
	Path   string
	Loaded bool // false: an existing one was attached again
	Locked bool // kept out of swap by this process

	file    *os.File
	mapping *hugemem.Mapping
	layout  layout
	pages   hugemem.Coverage
}

// FD is the descriptor for children to Attach. It is open read-only and carries the lock that says "in use".
func (s *Segment) FD() *os.File { return s.file }

// Pages is what the kernel says about the segment's pages in this process.
func (s *Segment) Pages() hugemem.Coverage { return s.pages }

// Nodes asks the kernel on which NUMA nodes the segment's pages lie, in bytes by node.
func (s *Segment) Nodes() (map[int]int64, error) { return s.mapping.Nodes() }

// Info describes the segment.
func (s *Segment) Info() Info {
	info := describe(&s.layout, s.pages)
	info.Path = s.Path
	return info
}

// Check reports whether the file still has the size that it was mapped with; ErrSize if somebody has cut it off. Whoever
// reads behind the cut dies of it, or, up to the end of the page with the cut, finds zeros.
func (s *Segment) Check() error {
	st, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("check tables: %w", err)
	}
	if want := int64(len(s.mapping.Bytes)); st.Size() != want {
		return fmt.Errorf("check tables: %w: got %d bytes, want %d", ErrSize, st.Size(), want)
	}
	return nil
}

// Close gives up mapping and descriptor. The file stays, to be found by OpenExisting.
func (s *Segment) Close() error { return errors.Join(s.mapping.Unmap(), s.file.Close()) }

// Remove takes the name away, unless another server of this instance, in another run directory, uses the segment too (I3). The
// memory is given back when the last process that maps it is done.
func (s *Segment) Remove() error {
	// Children share our lock, so it can become exclusive exactly if nobody else has one.
	if err := unix.Flock(int(s.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return os.Remove(s.Path)
}

// OpenExisting attaches a complete segment with the manifest's digest. The error is os.ErrNotExist where there is none, and
// otherwise says what is wrong with the one that is there.
func OpenExisting(ctx context.Context, m *model.Manifest, o Options) (*Segment, error) {
	want, err := layoutOf(m)
	if err != nil {
		return nil, err
	}
	if err := checkInstance(o.Instance); err != nil {
		return nil, err
	}
	name := SegmentName(o.Instance, hex.EncodeToString(want.digest[:]), o.Copy)
	var errs []error
	for _, dir := range hugemem.Dirs(o.Dir) {
		s, err := openReady(ctx, filepath.Join(dir, name), &want)
		if err == nil {
			s.lock(ctx, o.log())
			if o.Want != hugemem.Small {
				hugemem.WarnIfSmall(ctx, o.log(), name, s.pages)
			}
			return s, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("open tables %q: %w", filepath.Join(dir, name), err))
		}
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("open tables %q: %w", name, os.ErrNotExist)
	}
	return nil, errors.Join(errs...)
}

// openReady opens a segment for use and checks it.
func openReady(ctx context.Context, path string, want *layout) (*Segment, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	s := &Segment{Path: path, file: f}
	if err := s.attach(ctx, want); err != nil {
		if s.mapping != nil {
			err = errors.Join(err, s.mapping.Unmap())
		}
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// lock keeps the pages out of swap if it may.
func (s *Segment) lock(ctx context.Context, log *slog.Logger) {
	s.Locked = s.mapping.Lock() == nil
	hugemem.WarnIfSwappable(ctx, log, filepath.Base(s.Path), s.Locked)
}

func (s *Segment) attach(ctx context.Context, want *layout) error {
	if err := checkOwner(s.file); err != nil {
		return err
	}
	if err := flock(s.file, unix.LOCK_SH); err != nil {
		return err
	}
	var err error
	if s.mapping, s.layout, err = mapSegment(int(s.file.Fd())); err != nil {
		return err
	}
	if err := s.layout.matches(*want); err != nil {
		return err
	}
	if err := s.mapping.Populate(ctx); err != nil {
		return err
	}
	s.pages, _ = s.mapping.Coverage() // where smaps cannot be read the pages are unknown, and as good as they are
	return nil
}

// checkOwner refuses a file that someone else may have put in our place: the directory may be open to all.
func checkOwner(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("stat segment: %w", err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%w: got uid %d mode %#o, want uid %d and nobody else writing", ErrOwner, st.Uid, st.Mode&0o777, os.Geteuid())
	}
	return nil
}

// flock takes a lock without waiting. It belongs to the open file, so children that inherit the descriptor hold it too.
func flock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		default:
			return fmt.Errorf("lock segment: %w", err)
		}
	}
}

// Reclaim removes segments that a former run of this instance has left: all of them but complete ones with the digest given
// (Manifest.TablesDigest) that are one of the copies given, and ones that a process still holds. It returns the paths it removed. It
// must not run beside a Load of the same instance.
func Reclaim(ctx context.Context, o Options, digest string, copies ...Copy) (removed []string, err error) {
	paths, err := segmentPaths(o.Instance, o.Dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, path := range paths {
		keep := ""
		if slices.ContainsFunc(copies, func(c Copy) bool { return filepath.Base(path) == SegmentName(o.Instance, digest, c) }) {
			keep = digest
		}
		switch reason, err := reclaim(path, keep); {
		case err != nil:
			errs = append(errs, fmt.Errorf("reclaim tables %q: %w", path, err))
		case reason != "":
			removed = append(removed, path)
			o.log().LogAttrs(ctx, slog.LevelInfo, "removed tables left by a former run", slog.String("path", path), slog.String("reason", reason))
		}
	}
	return removed, errors.Join(errs...)
}

// reclaim removes one file and says why, or keeps it and says nothing. keep is the digest of a complete one that stays; empty: none does.
func reclaim(path, keep string) (reason string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := checkOwner(f); err != nil {
		return "", err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		if errors.Is(err, ErrBusy) {
			return "", nil // in use: its memory would not come back anyway
		}
		return "", err
	}
	mapping, l, err := mapSegment(int(f.Fd()))
	if err == nil {
		if err := mapping.Unmap(); err != nil {
			return "", err
		}
		if keep == hex.EncodeToString(l.digest[:]) {
			return "", nil
		}
		reason = "not wanted"
	} else {
		reason = err.Error()
	}
	return reason, os.Remove(path)
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}
