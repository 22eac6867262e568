package shmring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"rankd/internal/hugemem"
)

// Attached is a region that this process has mapped.
type Attached struct {
	*Region
	memory *hugemem.Mapping
}

// Attach maps the region behind an inherited descriptor, which stays the caller's, and opens it.
func Attach(fd int) (*Attached, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat region on descriptor %d: %w", fd, err)
	}
	m, err := hugemem.Map(fd, st.Size, true)
	if err != nil {
		return nil, fmt.Errorf("map region: %w", err)
	}
	r, err := Open(m.Bytes)
	if err != nil {
		_ = m.Unmap()
		return nil, err
	}
	return &Attached{Region: r, memory: m}, nil
}

// Close ends the mapping. No role of the region may be used afterwards.
func (a *Attached) Close() error { return a.memory.Unmap() }

// AttachPath opens the region behind a path, such as a descriptor of another process in /proc, to look at it.
func AttachPath(path string) (*Attached, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open region: %w", err)
	}
	defer f.Close()
	return Attach(int(f.Fd()))
}
