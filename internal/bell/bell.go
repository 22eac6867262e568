package bell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Create returns the descriptor of a new bell: non-blocking and closed on exec.
func Create() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create eventfd: %w", err)
	}
	return fd, nil
}

// Set rings bells by index.
type Set []int

// Ring makes the next or current Wait on bell i return.
func (s Set) Ring(i int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s[i], one[:]) // EAGAIN: the counter is full, so it will wake
}

// Bell is the waiting end.
type Bell struct {
	file *os.File
}

// Open takes over fd, which must be non-blocking: the runtime's poller waits on it.
func Open(fd int) (*Bell, error) {
	f := os.NewFile(uintptr(fd), "bell")
	if f == nil {
		return nil, fmt.Errorf("open bell: got descriptor %d, want an eventfd", fd)
	}
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("open bell on descriptor %d: %w", fd, err)
	}
	return &Bell{file: f}, nil
}

// Wait returns after a ring or the timeout, and reports whether it was a ring.
func (b *Bell) Wait(timeout time.Duration) (rung bool, err error) {
	if err := b.file.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return false, fmt.Errorf("wait for bell: %w", err)
	}
	var count [8]byte
	if _, err := b.file.Read(count[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		return false, fmt.Errorf("wait for bell: %w", err)
	}
	return true, nil
}

// Ring rings this bell.
func (b *Bell) Ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = b.file.Write(one[:])
}

// Close ends all waits with an error.
func (b *Bell) Close() error { return b.file.Close() }
