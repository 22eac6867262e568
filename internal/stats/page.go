package stats

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrForeign is wrapped by the error of an attacher that was given something else than a page of this layout.
var ErrForeign = errors.New("not a counter page of this version")

// Page is a mapped counter page.
type Page struct {
	mem []byte
	l   *layout
}

// Create makes an empty page in a sealed memfd. The caller owns the file, which may be inherited; the mapping does not
// need it.
func Create() (*Page, *os.File, error) {
	fd, err := unix.MemfdCreate("rankd-stats", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("create counter page: %w", err)
	}
	file := os.NewFile(uintptr(fd), "rankd-stats")
	p, err := format(file)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("create counter page: %w", err)
	}
	return p, file, nil
}

func format(file *os.File) (*Page, error) {
	if err := file.Truncate(int64(pageBytes)); err != nil {
		return nil, err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	p, err := mapPage(int(file.Fd()), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	h := &p.l.header
	h.version, h.blockBytes, h.blockCount = pageVersion, blockBytes, blockCount
	h.magic.Store(pageMagic) // SYNC(stats-ready): pairs with attach
	return p, nil
}

// Attach maps the page behind an inherited descriptor for writing. The descriptor stays the caller's.
func Attach(fd int) (*Page, error) { return attach(fd, unix.PROT_READ|unix.PROT_WRITE) }

// Open maps the page at path, such as /proc/PID/fd/N, for reading only: writing through it faults.
func Open(path string) (*Page, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open counter page: %w", err)
	}
	defer file.Close()
	return attach(int(file.Fd()), unix.PROT_READ)
}

func attach(fd, protection int) (*Page, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("attach counter page: %w", err)
	}
	if st.Size != int64(pageBytes) {
		return nil, fmt.Errorf("attach counter page: got %d bytes, want %d: %w", st.Size, pageBytes, ErrForeign)
	}
	p, err := mapPage(fd, protection)
	if err != nil {
		return nil, fmt.Errorf("attach counter page: %w", err)
	}
	h := &p.l.header
	magic := h.magic.Load() // SYNC(stats-ready): pairs with format
	if magic != pageMagic || h.version != pageVersion || h.blockBytes != blockBytes || h.blockCount != blockCount {
		err := fmt.Errorf("attach counter page: got magic %#x version %d with %d blocks of %d bytes, want %#x version %d with %d of %d: %w",
			magic, h.version, h.blockCount, h.blockBytes, uint64(pageMagic), pageVersion, blockCount, blockBytes, ErrForeign)
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func mapPage(fd, protection int) (*Page, error) {
	mem, err := unix.Mmap(fd, 0, pageBytes, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map counter page: %w", err)
	}
	return &Page{mem: mem, l: overlay(mem)}, nil
}

// Close unmaps the page. No block of it may be used afterwards.
func (p *Page) Close() error {
	mem := p.mem
	p.mem, p.l = nil, nil
	return unix.Munmap(mem)
}

// Frontend is the block of frontend i, 0 <= i < MaxFrontends.
func (p *Page) Frontend(i int) *Block {
	if i < 0 || i >= MaxFrontends {
		panic(fmt.Sprintf("frontend block: got index %d, want 0..%d", i, MaxFrontends-1))
	}
	return &p.l.blocks[i]
}

// Owner is the block of the device owner.
func (p *Page) Owner() *Block { return &p.l.blocks[MaxFrontends] }

// Supervisor is the block of the supervisor.
func (p *Page) Supervisor() *Block { return &p.l.blocks[MaxFrontends+1] }
