package tables

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/hugemem"
	"rankd/internal/testutil"
)

// mountFS mounts a filesystem for the test, or skips where that is not allowed.
func mountFS(t *testing.T, fstype, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount(fstype, dir, fstype, 0, options); err != nil {
		t.Skipf("mount %s (%s): %v", fstype, options, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// hugetlbPool adds pages to the pool for the test and takes them away again. The lock keeps tests of other packages away.
func hugetlbPool(t *testing.T, pages int) {
	t.Helper()
	f, err := os.OpenFile("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("changing the hugetlb pool: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	read := func() int {
		b, _ := os.ReadFile(f.Name())
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	before := read()
	t.Cleanup(func() {
		if _, err := f.WriteString(strconv.Itoa(before)); err != nil {
			t.Errorf("restore hugetlb pool: %v", err)
		}
	})
	if _, err := f.WriteString(strconv.Itoa(before + pages)); err != nil || read() < before+pages {
		t.Skipf("grow hugetlb pool: got %d pages, want %d (%v)", read(), before+pages, err)
	}
}

// A segment lies on the pages of its directory, is found there again, and says so in every process.
func TestSegmentOnEachKindOfPages(t *testing.T) {
	for _, tt := range []struct {
		mode hugemem.Mode
		dir  func(t *testing.T) string
	}{
		{hugemem.HugeTmpfs, func(t *testing.T) string { return mountFS(t, "tmpfs", "huge=always,size=32m") }},
		{hugemem.Hugetlb, func(t *testing.T) string { hugetlbPool(t, 8); return mountFS(t, "hugetlbfs", "pagesize=2M") }},
		{hugemem.Collapse, func(t *testing.T) string { return shmDir(t) }},
		{hugemem.Small, func(t *testing.T) string { return shmDir(t) }},
	} {
		t.Run(tt.mode.String(), func(t *testing.T) {
			b := makeBundle(t, t4)
			o := Options{Instance: testutil.Instance(t), Dir: tt.dir(t), Want: tt.mode}
			seg, err := Load(context.Background(), b, o)
			if err != nil {
				t.Fatal(err)
			}
			defer seg.Close()
			set, err := Attach(int(seg.FD().Fd()), b.Manifest)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			again, err := OpenExisting(context.Background(), b.Manifest, o)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			for _, p := range []hugemem.Coverage{seg.Pages(), set.Pages(), again.Pages()} {
				want := p.TotalBytes
				if tt.mode == hugemem.Small {
					want = 0
				}
				if p.Mode != tt.mode || p.HugeBytes != want || p.TotalBytes == 0 {
					t.Errorf("pages: got %+v, want %v and %d huge bytes", p, tt.mode, want)
				}
			}
			if set.Checksum() != attach(t, int(again.FD().Fd()), b.Manifest).Checksum() {
				t.Error("two mappings of one segment differ")
			}
			if err := seg.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}
