package hugemem

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// HugeSize is the size and alignment of a huge page in bytes: file sizes are rounded up to it and mappings aligned to it.
const HugeSize = 2 << 20

// Mapping is a file in this process's address space. Bytes aliases the file's pages: it is invalid after Unmap, and
// writing to it where the mapping is read-only ends the process.
type Mapping struct {
	Bytes []byte

	auto mmap.MMap      // non-nil if mmap-go's address was good
	raw  unsafe.Pointer // otherwise the start of our own mapping
	kind fsKind
}

// Map maps the first size bytes of the open file fd, shared, at a 2 MiB-aligned address where size allows huge pages at
// all. The mapping is independent of fd afterwards; fd stays the caller's. write asks for a writable mapping.
func Map(fd int, size int64, write bool) (*Mapping, error) {
	if size <= 0 || size != int64(int(size)) {
		return nil, fmt.Errorf("map file: got %d bytes, want more than 0", size)
	}
	kind, err := kindOfFD(fd)
	if err != nil {
		return nil, fmt.Errorf("map file: %w", err)
	}
	m := &Mapping{kind: kind}
	auto, err := mapAuto(fd, int(size), write)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if addressOf(auto)%HugeSize == 0 || size < HugeSize || kind.hugetlb {
		m.auto, m.Bytes = auto, auto
		return m, nil
	}
	// The kernel chose an address that rules huge pages out, and mmap-go takes no wish.
	if err := auto.Unmap(); err != nil {
		return nil, fmt.Errorf("unmap unaligned mapping: %w", err)
	}
	m.raw, err = mapAligned(fd, uintptr(size), write)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	m.Bytes = unsafe.Slice((*byte)(m.raw), int(size))
	return m, nil
}

func mapAuto(fd, size int, write bool) (mmap.MMap, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", err)
	}
	f := os.NewFile(uintptr(dup), "mapped")
	defer f.Close()
	prot := mmap.RDONLY
	if write {
		prot = mmap.RDWR
	}
	return mmap.MapRegion(f, size, prot, 0, 0)
}

// mapAligned reserves size plus one huge page without access, maps the file over the aligned part of it and gives the
// two ends back.
func mapAligned(fd int, size uintptr, write bool) (unsafe.Pointer, error) {
	reserved, err := unix.MmapPtr(-1, 0, nil, size+HugeSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve addresses: %w", err)
	}
	page := uintptr(os.Getpagesize())
	head := -uintptr(reserved) % HugeSize
	base := unsafe.Add(reserved, head)
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	if _, err := unix.MmapPtr(fd, 0, base, size, prot, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(reserved, size+HugeSize))
	}
	mapped := (size + page - 1) &^ (page - 1)
	if head > 0 {
		err = unix.MunmapPtr(reserved, head)
	}
	if tail := size + HugeSize - head - mapped; tail >= page {
		err = errors.Join(err, unix.MunmapPtr(unsafe.Add(base, mapped), tail))
	}
	if err != nil {
		return nil, fmt.Errorf("trim reserved addresses: %w", err)
	}
	return base, nil
}

// Unmap ends the mapping. It must not be called while anything still reads Bytes.
func (m *Mapping) Unmap() error {
	if m.Bytes == nil {
		return fmt.Errorf("unmap: %w", os.ErrClosed)
	}
	size := uintptr(len(m.Bytes))
	m.Bytes = nil
	if m.auto != nil {
		return m.auto.Unmap()
	}
	return unix.MunmapPtr(m.raw, size)
}

// Aligned reports whether huge pages are possible at this address.
func (m *Mapping) Aligned() bool { return addressOf(m.Bytes)%HugeSize == 0 }

// Coverage asks the kernel which pages this mapping lies on in this process. Pages count once they have been touched.
func (m *Mapping) Coverage() (Coverage, error) {
	return coverage(uint64(addressOf(m.Bytes)), int64(len(m.Bytes)), m.kind.huge)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
