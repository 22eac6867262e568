package hugemem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// step is how much one system call allocates or maps: small enough to cancel between two and to show progress, large
// enough to cost nothing. A signal makes fallocate undo the call it hits, so large calls might never end.
const step = 32 << 20

// inSteps calls f for [0, size) in order, step by step, until the context ends or f errs.
func inSteps(ctx context.Context, size int64, f func(off, n int64) error) error {
	for off := int64(0); off < size; off += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(off, min(step, size-off)); err != nil {
			return err
		}
	}
	return nil
}

// allocate gives the whole file its pages.
func allocate(ctx context.Context, fd int, size int64, progress func(int64)) error {
	return inSteps(ctx, size, func(off, n int64) error {
		if err := allocatePart(ctx, fd, off, n); err != nil {
			return err
		}
		progress(off + n)
		return nil
	})
}

// allocatePart gives n bytes of the file their pages.
func allocatePart(ctx context.Context, fd int, off, n int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := unix.Fallocate(fd, 0, off, n)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("allocate bytes %d to %d: %w", off, off+n, err)
		}
		return nil
	}
}

// collapse merges small pages into huge ones where the kernel can, and returns the first reason for which it could not.
// It is a request: the result is read back by Coverage.
func (m *Mapping) collapse(ctx context.Context) error {
	var first error
	err := inSteps(ctx, int64(len(m.Bytes))&^(HugeSize-1), func(off, n int64) error {
		err := madvise(m.Bytes[off:off+n], unix.MADV_COLLAPSE)
		if errors.Is(err, unix.EAGAIN) { // a page was busy for a moment
			err = madvise(m.Bytes[off:off+n], unix.MADV_COLLAPSE)
		}
		if first == nil {
			first = err
		}
		if errors.Is(err, unix.EINVAL) { // not known before Linux 6.1, or not for this file: it will not get better
			return err
		}
		return nil
	})
	return errors.Join(err, first)
}

// Populate maps every page now, so that a reader meets no page fault later. In a process that only reads, this is also
// what brings the huge mappings. Memory that cannot be had is an error, not a SIGBUS.
func (m *Mapping) Populate(ctx context.Context) error {
	return m.populate(ctx, unix.MADV_POPULATE_READ)
}

func (m *Mapping) populate(ctx context.Context, advice int) error {
	err := inSteps(ctx, int64(len(m.Bytes)), func(off, n int64) error {
		return madvise(m.Bytes[off:off+n], advice)
	})
	if errors.Is(err, unix.EINVAL) { // before Linux 5.14
		m.touch()
		return nil
	}
	if err != nil {
		return fmt.Errorf("populate mapping of %d bytes: %w", len(m.Bytes), err)
	}
	return nil
}

// touch reads a byte of every page. The pages must be allocated: a hole in a full filesystem would be a SIGBUS.
func (m *Mapping) touch() {
	var sum byte
	for off := 0; off < len(m.Bytes); off += os.Getpagesize() {
		sum += m.Bytes[off]
	}
	runtime.KeepAlive(sum) // so that the reads are not optimised away
}

// Lock keeps the pages out of swap for as long as this process lives or until Unmap. hugetlb pages are never swapped.
func (m *Mapping) Lock() error {
	if m.kind.hugetlb {
		return nil
	}
	if err := unix.Mlock(m.Bytes); err != nil {
		return fmt.Errorf("lock %d bytes in memory: %w", len(m.Bytes), err)
	}
	return nil
}

func madvise(b []byte, advice int) error {
	for {
		err := unix.Madvise(b, advice)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
