package hugemem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Options says what Create makes. Name and Size are required.
type Options struct {
	Name     string                  // file name without directory; of a nameless file, what /proc shows
	Size     int64                   // bytes; rounded up to whole huge pages
	Named    bool                    // true: a file that outlives the process; false: gone with its last holder
	Dir      string                  // the only directory for files (flag --shm-dir); empty: the best of Dirs
	Want     Mode                    // Auto: the best that can be had; otherwise this one or an error
	Nodes    []int                   // NUMA nodes for the pages: one, or several by turns of a huge page; empty: where the kernel takes them from
	Log      *slog.Logger            // what was tried and obtained; nil: silent
	Progress func(done, total int64) // bytes allocated so far, from the calling goroutine; may be nil
}

// File is shared memory that this process made. It owns the descriptor and a writable mapping.
type File struct {
	*os.File
	Path     string   // empty for nameless memory
	Size     int64    // bytes, whole huge pages
	Mapping  *Mapping // writable
	Coverage Coverage // when Create returned
	Locked   bool     // kept out of swap by this process

	allocated int64 // bytes so far, in Create
}

// Create makes a file and allocates and maps all of it, in the best place that has room. A place that fails is left for
// the next one, with a log line. If all fail for want of room the error is a *RoomError.
func Create(ctx context.Context, o Options) (*File, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.Name == "" || filepath.Base(o.Name) != o.Name || o.Size <= 0 {
		return nil, fmt.Errorf("create shared pages: got name %q and %d bytes, want a plain file name and more than 0", o.Name, o.Size)
	}
	places, err := o.places()
	if err != nil {
		return nil, fmt.Errorf("create %q: %w", o.Name, err)
	}
	refused := &RoomError{Name: o.Name, Size: o.Size, Need: o.Size, Available: -1}
	for _, p := range places {
		f, err := o.try(ctx, p, refused)
		if err == nil {
			o.report(ctx, f)
			return f, nil
		}
		if !placeMayFail(err) {
			return nil, fmt.Errorf("create %q in %v: %w", o.Name, p, err)
		}
		refused.Tried = append(refused.Tried, fmt.Sprintf("%v: %v", p, err))
		o.Log.LogAttrs(ctx, slog.LevelInfo, "shared pages not available in this place",
			slog.String("file", o.Name), slog.String("place", p.String()), slog.Any("error", err))
	}
	if refused.Available < 0 {
		return nil, fmt.Errorf("create %q with pages %v: %w (tried: %v)", o.Name, o.Want, ErrNoMode, refused.Tried)
	}
	return nil, refused
}

// place is somewhere pages may come from.
type place struct {
	mode     Mode
	dir      string // empty: a memfd
	pageSize int64  // sizes are rounded up to it
}

func (p place) String() string {
	if p.dir == "" {
		return p.mode.String() + " memfd"
	}
	return p.mode.String() + " in " + p.dir
}

// places lists what to try, best first.
func (o Options) places() ([]place, error) {
	var all []place
	if o.Dir != "" {
		p, err := o.givenPlace()
		if err != nil {
			return nil, err
		}
		all = append(all, p...)
	} else {
		for _, d := range hugeTmpfsDirs() {
			all = append(all, place{HugeTmpfs, d, HugeSize})
		}
		if o.Named {
			for _, d := range hugetlbDirs() {
				all = append(all, hugetlbPlace(d))
			}
		} else if n := defaultHugetlbSize(); n > 0 {
			all = append(all, place{Hugetlb, "", n})
		}
		all = append(all, o.plainPlaces(DefaultDir)...)
	}
	if o.Want == Auto {
		return all, nil
	}
	var out []place
	for _, p := range all {
		// Small pages come from wherever ordinary ones do: simply not merged.
		if p.mode == o.Want {
			out = append(out, p)
		}
	}
	return out, nil
}

// givenPlace is the one directory that was asked for, by what is mounted there.
func (o Options) givenPlace() ([]place, error) {
	k, err := kindOfDir(o.Dir)
	switch {
	case err != nil:
		return nil, err
	case k.hugetlb:
		return []place{hugetlbPlace(o.Dir)}, nil
	case k.huge:
		return []place{{HugeTmpfs, o.Dir, HugeSize}}, nil
	case k.tmpfs:
		return o.plainPlaces(o.Dir), nil
	}
	return nil, fmt.Errorf("%w: %q is on a filesystem of type %#x; name another with --shm-dir", ErrFilesystem, o.Dir, k.magic)
}

// plainPlaces are ordinary pages, merged or not. Nameless ones come from a memfd, which can be sealed.
func (o Options) plainPlaces(dir string) []place {
	if !o.Named {
		dir = ""
	}
	return []place{{Collapse, dir, HugeSize}, {Small, dir, HugeSize}}
}

func hugetlbPlace(dir string) place {
	p := place{Hugetlb, dir, HugeSize}
	if k, err := kindOfDir(dir); err == nil && k.pageSize > p.pageSize {
		p.pageSize = k.pageSize // 1 GiB pages
	}
	return p
}

var (
	errPlaceRoom = errors.New("not enough room")
	errNotMerged = errors.New("pages were not merged")
)

// placeMayFail reports errors that concern one place only.
func placeMayFail(err error) bool {
	for _, e := range []error{
		errPlaceRoom, errNotMerged, unix.ENOSPC, unix.ENOMEM, unix.EDQUOT, unix.EACCES, unix.EPERM,
		unix.EROFS, unix.ENOENT, unix.ENOTDIR, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOSYS, unix.ENODEV,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// try makes the file in one place. On failure nothing of it is left.
func (o Options) try(ctx context.Context, p place, refused *RoomError) (*File, error) {
	size := (o.Size + p.pageSize - 1) &^ (p.pageSize - 1)
	if size < o.Size { // the sum overflows near the end of int64
		size = math.MaxInt64
	}
	free, err := p.room()
	if err != nil {
		return nil, err
	}
	if free.bytes < size {
		refused.note(p, free, size)
		return nil, fmt.Errorf("%w: need %d bytes, available %d (%s)", errPlaceRoom, size, free.bytes, free.limit)
	}
	f, err := o.open(p)
	if err != nil {
		return nil, err
	}
	f.Size = size
	if err := o.fill(ctx, f, p); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
			// Someone took the room between the look and the allocation, or a limit that cannot be read was met.
			refused.note(p, room{f.allocated, "the kernel refused more"}, size)
		}
		return nil, errors.Join(err, f.Remove(), f.Close())
	}
	return f, nil
}

func (p place) room() (room, error) {
	if p.mode == Hugetlb {
		return hugetlbRoom(p.dir, p.pageSize), nil
	}
	return shmemRoom(p.dir)
}

// note keeps the place that came closest. need is what it would have had to have.
func (e *RoomError) note(p place, r room, need int64) {
	if r.bytes > e.Available {
		e.Available, e.Limit, e.Need = r.bytes, r.limit, need
		e.Place = p.dir
		if p.dir == "" {
			e.Place = "memfd"
		}
	}
}

// open makes the empty file.
func (o Options) open(p place) (*File, error) {
	if p.dir == "" {
		flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
		if p.mode == Hugetlb {
			flags |= unix.MFD_HUGETLB
		}
		fd, err := unix.MemfdCreate(o.Name, flags)
		if err != nil {
			return nil, fmt.Errorf("create memfd: %w", err)
		}
		return &File{File: os.NewFile(uintptr(fd), o.Name)}, nil
	}
	if !o.Named {
		f, err := os.OpenFile(p.dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("create nameless file: %w", err)
		}
		return &File{File: f}, nil
	}
	path := filepath.Join(p.dir, o.Name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err // names the path
	}
	return &File{File: f, Path: path}, nil
}

// fill sizes, allocates, maps, merges, seals and locks the new file.
func (o Options) fill(ctx context.Context, f *File, p place) error {
	fd := int(f.Fd())
	if err := f.Truncate(f.Size); err != nil {
		return err
	}
	err := o.placed(ctx, f, p, func(done int64) {
		f.allocated = done
		o.Progress(min(done, o.Size), o.Size)
	})
	if err != nil {
		return err
	}
	m, err := Map(fd, f.Size, true)
	if err != nil {
		return err
	}
	f.Mapping = m
	o.keepPolicy(m)
	if err := m.populate(ctx, unix.MADV_POPULATE_WRITE); err != nil { // before any merge: I4
		return err
	}
	var merge error
	if p.mode == HugeTmpfs || p.mode == Collapse {
		merge = m.collapse(ctx) // on a huge tmpfs this only fills what fragmentation left small
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.populate(ctx, unix.MADV_POPULATE_WRITE); err != nil { // merging takes small mappings away
			return err
		}
	}
	if f.Coverage, err = m.Coverage(); err != nil {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "pages of the mapping are unknown", slog.String("file", o.Name), slog.Any("error", err))
	} else if p.mode == Collapse && f.Coverage.Mode == Small {
		if merge == nil { // the kernel said yes and left small pages
			return errNotMerged
		}
		return fmt.Errorf("%w: %w", errNotMerged, merge)
	}
	if p.dir == "" {
		const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			return fmt.Errorf("seal memfd: %w", err)
		}
	}
	f.Locked = m.Lock() == nil
	return nil
}

// report logs what was obtained.
func (o Options) report(ctx context.Context, f *File) {
	o.Log.LogAttrs(ctx, slog.LevelInfo, "shared pages obtained",
		slog.String("file", o.Name), slog.String("path", f.Path), slog.String("mode", f.Coverage.Mode.String()),
		slog.Int64("huge_bytes", f.Coverage.HugeBytes), slog.Int64("total_bytes", f.Size), slog.Bool("locked", f.Locked))
	if o.Want != Small {
		WarnIfSmall(ctx, o.Log, o.Name, f.Coverage)
	}
	WarnIfSwappable(ctx, o.Log, o.Name, f.Locked)
}

// WarnIfSmall logs a warning with the next step if not all of a mapping lies on huge pages. A coverage that the kernel did
// not tell is left alone.
func WarnIfSmall(ctx context.Context, log *slog.Logger, name string, c Coverage) {
	if c.Mode == Auto || c.HugeBytes >= c.TotalBytes {
		return
	}
	log.LogAttrs(ctx, slog.LevelWarn, "shared pages are not all huge",
		slog.String("file", name), slog.String("mode", c.Mode.String()), slog.Int64("huge_percent", 100*(c.HugeBytes>>10)/max(c.TotalBytes>>10, 1)),
		slog.Int64("huge_bytes", c.HugeBytes), slog.Int64("total_bytes", c.TotalBytes),
		slog.String("next", "have more memory free, write 1 to /proc/sys/vm/compact_memory and start again, without kept tables; "+
			"or mount a tmpfs with huge=always and name it with --shm-dir"))
}

// WarnIfSwappable logs a warning if shared pages are not locked while swap is on.
func WarnIfSwappable(ctx context.Context, log *slog.Logger, name string, locked bool) {
	if !locked && swapOn() {
		log.LogAttrs(ctx, slog.LevelWarn, "shared pages may be swapped out: raise the limit on locked memory or turn swap off",
			slog.String("file", name))
	}
}

// Remove takes the name away, if there is one; holders keep the memory. It may be called once.
func (f *File) Remove() error {
	if f.Path == "" {
		return nil
	}
	path := f.Path
	f.Path = ""
	return os.Remove(path)
}

// Close ends the mapping and closes the descriptor. A named file stays.
func (f *File) Close() error {
	var err error
	if f.Mapping != nil {
		err = f.Mapping.Unmap()
		f.Mapping = nil
	}
	return errors.Join(err, f.File.Close())
}
