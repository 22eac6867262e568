package hugemem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

const childEnv = "RANKD_HUGEMEM_CHILD"

// TestMain also serves as the second process: it maps descriptor 3 read-only, touches it and prints the coverage.
func TestMain(m *testing.M) {
	if size, err := strconv.ParseInt(os.Getenv(childEnv), 10, 64); err == nil {
		os.Exit(child(size))
	}
	testutil.Main(m)
}

func child(size int64) int {
	m, err := Map(3, size, false)
	if err == nil {
		err = m.Populate(context.Background())
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	c, err := m.Coverage()
	if first, last := m.Bytes[0], m.Bytes[len(m.Bytes)-1]; err != nil || first != 'f' || last != 'l' {
		fmt.Printf("first and last byte: got %q and %q, want 'f' and 'l'; coverage: %v", first, last, err)
		return 1
	}
	os.Stdout.WriteString(c.Mode.String() + " " + strconv.FormatInt(c.HugeBytes, 10))
	return 0
}

// coverageElsewhere is what another process gets from the same file without merging anything itself.
func coverageElsewhere(t *testing.T, f *File) string {
	t.Helper()
	f.Mapping.Bytes[0], f.Mapping.Bytes[f.Size-1] = 'f', 'l'
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+strconv.FormatInt(f.Size, 10))
	cmd.ExtraFiles = []*os.File{f.File}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("second process: %v: %s", err, out)
	}
	return string(out)
}

// shmDir makes a directory on the machine's ordinary tmpfs.
func shmDir(t *testing.T) string {
	t.Helper()
	if k, err := kindOfDir(DefaultDir); err != nil || !k.tmpfs {
		t.Skipf("no tmpfs at %s", DefaultDir)
	}
	dir, err := os.MkdirTemp(DefaultDir, "rankd-hugemem-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

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

// hugetlbPool adds n 2 MiB pages to the pool for the test and takes them away again.
func hugetlbPool(t *testing.T, n int64) {
	t.Helper()
	const knob = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	f, err := os.OpenFile(knob, os.O_RDWR, 0)
	if err != nil {
		t.Skipf("changing the hugetlb pool: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil { // keeps tests of other packages away
		t.Fatal(err)
	}
	before, _ := readNumber(knob)
	t.Cleanup(func() {
		if err := os.WriteFile(knob, []byte(strconv.FormatInt(before, 10)), 0); err != nil {
			t.Errorf("restore hugetlb pool: %v", err)
		}
	})
	if err := os.WriteFile(knob, []byte(strconv.FormatInt(before+n, 10)), 0); err != nil {
		t.Skipf("grow hugetlb pool: %v", err)
	}
	if now, _ := readNumber(knob); now < before+n {
		t.Skipf("grow hugetlb pool: got %d pages, want %d", now, before+n)
	}
}

func create(t *testing.T, o Options) *File {
	t.Helper()
	f, err := Create(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.Remove(), f.Close() })
	return f
}

const size = 5<<20 + 123 // rounds up to 6 MiB

// TestModes creates named and nameless memory in each mode and asks a second process what it sees.
func TestModes(t *testing.T) {
	merges := canCollapse(t)
	for _, tt := range []struct {
		name  string
		want  Mode
		setup func(t *testing.T) string
	}{
		{"huge tmpfs", HugeTmpfs, func(t *testing.T) string { return mountFS(t, "tmpfs", "huge=always,size=64m") }},
		{"hugetlbfs", Hugetlb, func(t *testing.T) string { hugetlbPool(t, 8); return mountFS(t, "hugetlbfs", "pagesize=2M") }},
		{"collapse", Collapse, func(t *testing.T) string {
			if !merges {
				t.Skip("this kernel does not merge shared pages")
			}
			return shmDir(t)
		}},
		{"small", Small, shmDir},
	} {
		for _, named := range []bool{true, false} {
			t.Run(tt.name+"/named="+strconv.FormatBool(named), func(t *testing.T) {
				dir := tt.setup(t)
				f := create(t, Options{Name: "rankd.test", Dir: dir, Size: size, Named: named, Want: tt.want})
				if f.Size != 6<<20 || int64(len(f.Mapping.Bytes)) != f.Size {
					t.Errorf("size: got %d and %d mapped, want %d", f.Size, len(f.Mapping.Bytes), 6<<20)
				}
				if !f.Mapping.Aligned() {
					t.Error("mapping is not aligned")
				}
				wantHuge := f.Size
				if tt.want == Small {
					wantHuge = 0
				}
				c := f.Coverage
				if c.Mode != tt.want || c.HugeBytes != wantHuge || c.ResidentBytes != f.Size || c.TotalBytes != f.Size {
					t.Errorf("I1/I3: coverage: got %+v, want mode %v and %d huge bytes", c, tt.want, wantHuge)
				}
				if got, want := coverageElsewhere(t, f), tt.want.String()+" "+strconv.FormatInt(wantHuge, 10); got != want {
					t.Errorf("I4: coverage in a second process: got %q, want %q", got, want)
				}
				if _, err := os.Stat(filepath.Join(dir, "rankd.test")); (err == nil) != named {
					t.Errorf("stat of the name: got %v, named %v", err, named)
				}
				if seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); f.Name() == "rankd.test" && (err != nil || seals&unix.F_SEAL_SHRINK == 0) {
					t.Errorf("I2: seals of the memfd: got %#x, %v", seals, err)
				}
			})
		}
	}
}

func canCollapse(t *testing.T) bool {
	f, err := Create(context.Background(), Options{Name: "probe", Size: HugeSize, Want: Collapse})
	if err != nil {
		t.Logf("probe: %v", err)
		return false
	}
	_ = f.Close()
	return true
}

func TestHugetlbMemfdIsUsedWherePagesAreFree(t *testing.T) {
	hugetlbPool(t, 8)
	f := create(t, Options{Name: "rankd.test", Size: size, Want: Hugetlb})
	if f.Coverage.Mode != Hugetlb || f.Coverage.HugetlbBytes != f.Size {
		t.Errorf("coverage: got %+v", f.Coverage)
	}
}

// A pool that is too small for the request is passed over; the log says so and the result says what it is.
func TestFallbackIsVisible(t *testing.T) {
	hugetlbPool(t, 1)
	var log bytes.Buffer
	f := create(t, Options{Name: "rankd.test", Size: size, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if f.Coverage.Mode == Hugetlb || f.Coverage.ResidentBytes != f.Size {
		t.Errorf("coverage: got %+v", f.Coverage)
	}
	if f.Coverage.Mode != HugeTmpfs && !strings.Contains(log.String(), "hugetlb memfd") {
		t.Errorf("log: got %s, want the pool that was passed over", &log)
	}
	if !strings.Contains(log.String(), "mode="+f.Coverage.Mode.String()) {
		t.Errorf("log: got %s, want mode %v", &log, f.Coverage.Mode)
	}
}

func TestPartlyHugePagesAreWarnedOf(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name string
		c    Coverage
		want string // "": no warning
	}{
		{"all", Coverage{Mode: Collapse, HugeBytes: 6 * mib, TotalBytes: 6 * mib}, ""},
		{"a part", Coverage{Mode: Collapse, HugeBytes: 704 * mib, TotalBytes: 3036 * mib}, "huge_percent=23"},
		{"all but one", Coverage{Mode: HugeTmpfs, HugeBytes: 198 * mib, TotalBytes: 200 * mib}, "huge_percent=99"},
		{"none", Coverage{Mode: Small, TotalBytes: 6 * mib}, "huge_percent=0"},
		{"unknown", Coverage{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			WarnIfSmall(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "x", tt.c)
			if tt.want == "" {
				if log.Len() > 0 {
					t.Errorf("got %s, want no warning", &log)
				}
				return
			}
			for _, want := range []string{"level=WARN", tt.want, "compact_memory"} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("got %s, want %s", &log, want)
				}
			}
		})
	}
}

func TestFullFilesystemIsRefusedWithFigures(t *testing.T) {
	dir := mountFS(t, "tmpfs", "size=4m")
	_, err := Create(context.Background(), Options{Name: "rankd.test", Dir: dir, Size: size, Named: true})
	var r *RoomError
	if !errors.As(err, &r) || !errors.Is(err, ErrNoRoom) {
		t.Fatalf("got %v, want a *RoomError", err)
	}
	if r.Size != size || r.Need != 6<<20 || r.Available != 4<<20 || r.Place != dir || r.Limit != "filesystem" {
		t.Errorf("got %+v", r)
	}
	if !strings.Contains(err.Error(), "--shm-dir") {
		t.Errorf("got %q, want the flag to change", err)
	}
	if want := "need 6291456 bytes (5243003 in whole huge pages), " + dir + " has 4194304 bytes available"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 0 {
		t.Errorf("I5: left behind: %v", left)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := shmDir(t)
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		o    Options
		want error
	}{
		{"no size", Options{Name: "x", Dir: dir}, nil},
		{"path as name", Options{Name: "a/b", Dir: dir, Size: 1}, nil},
		{"existing file", Options{Name: "taken", Dir: dir, Size: 1, Named: true}, os.ErrExist},
		{"missing directory", Options{Name: "x", Dir: dir + "/none", Size: 1}, os.ErrNotExist},
		{"wrong filesystem", Options{Name: "x", Dir: "/proc", Size: 1}, ErrFilesystem},
		{"more than the machine has", Options{Name: "x", Dir: dir, Size: 1 << 60, Named: true}, ErrNoRoom},
		{"size overflows", Options{Name: "x", Dir: dir, Size: 1<<63 - 1, Named: true}, ErrNoRoom},
		{"mode not here", Options{Name: "x", Dir: dir, Size: 1, Want: Hugetlb}, ErrNoMode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Create(context.Background(), tt.o)
			if err == nil {
				_ = f.Close()
				t.Fatal("got no error")
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestCancelledCreateLeavesNothing(t *testing.T) {
	dir := shmDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Create(ctx, Options{
		Name: "x", Dir: dir, Size: 3 * step, Named: true,
		Progress: func(done, _ int64) {
			if done >= step {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("I5: left behind: %v", left)
	}
}

// mapAligned is used where the kernel's own choice rules huge pages out; here it is called whatever that choice is.
func TestAlignedMappingWithoutTheKernelsHelp(t *testing.T) {
	f := create(t, Options{Name: "rankd.test", Size: size})
	before := mappings(t)
	p, err := mapAligned(int(f.Fd()), uintptr(f.Size), true)
	if err != nil {
		t.Fatal(err)
	}
	m := rawMapping(p, f.Size)
	if !m.Aligned() {
		t.Error("not aligned")
	}
	m.Bytes[f.Size-1] = 7
	if f.Mapping.Bytes[f.Size-1] != 7 {
		t.Error("the mapping is not of the same file")
	}
	if err := m.Unmap(); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmap(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second unmap: got %v, want %v", err, os.ErrClosed)
	}
	if after := mappings(t); after > before {
		t.Errorf("mappings: got %d, want at most %d", after, before)
	}
}

// mappings counts this process's mappings of the test's file and its inaccessible reservations of the same size.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("rankd.test"))
}
