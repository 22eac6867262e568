package tables

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/internal/testutil"
	"rankd/model"
)

const childEnv = "RANKD_TABLES_CHILD" // bundle, shm directory, instance

// loadAndDie is the process that is killed halfway through loading.
func loadAndDie(spec string) int {
	f := strings.Split(spec, "|")
	b, err := model.Open(f[0])
	if err != nil {
		return 3
	}
	chunks := 0
	_, err = Load(context.Background(), b, Options{
		Instance: f[2], Dir: f[1], Workers: 1, chunkBytes: 4096,
		afterChunk: func() {
			if chunks++; chunks == 20 { // the other worker may be at another chunk: the group's limit is two
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	_ = err
	return 4
}

func TestLoadedRowsAreTheBundlesRows(t *testing.T) {
	specs := []spec{
		{1000, 8, model.CombinerSum, model.PolicyReject},
		{1, 1, model.CombinerSum, model.PolicyReject},
		{333, 33, model.CombinerSum, model.PolicyReject},
		{77, 16, model.CombinerSum, model.PolicyReject},
	}
	b := makeBundle(t, specs)
	var reports [][2]int64
	seg := mustLoad(t, b, Options{
		Instance: testutil.Instance(t), Dir: shmDir(t), Workers: 3, chunkBytes: 1000,
		Progress: func(done, total int64) { reports = append(reports, [2]int64{done, total}) },
	})
	s := attach(t, int(seg.FD().Fd()), b.Manifest)
	for i, tl := range s.layout.tables {
		if tl.offset%line != 0 || tl.stride%line != 0 {
			t.Errorf("table %d: offset %d, stride %d, want multiples of %d", i, tl.offset, tl.stride, line)
		}
		for r := range tl.rows {
			row := s.mem[tl.offset+r*int64(tl.stride):][:tl.stride]
			for k := range tl.dim {
				if got, want := float(row, k), value(i, r, k); got != want {
					t.Fatalf("table %d row %d element %d: got %v, want %v", i, r, k, got, want)
				}
			}
			if len(bytes.Trim(row[4*tl.dim:], "\x00")) != 0 {
				t.Fatalf("table %d row %d: padding is not zero", i, r)
			}
		}
	}
	last := reports[len(reports)-1]
	if last[0] != last[1] || last[1] != seg.layout.dataBytes() {
		t.Errorf("last report: got %v, want all of %d", last, seg.layout.dataBytes())
	}
	if !slices.IsSortedFunc(reports, func(a, b [2]int64) int { return int(a[0] - b[0]) }) {
		t.Errorf("reports go back: %v", reports)
	}
}

// A child can map what it was given but not write to it.
func TestDescriptorIsReadOnly(t *testing.T) {
	seg := mustLoad(t, makeBundle(t, t4), Options{Instance: testutil.Instance(t), Dir: shmDir(t)})
	if _, err := unix.Mmap(int(seg.FD().Fd()), 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EACCES) {
		t.Errorf("writable mapping: got %v, want %v", err, unix.EACCES)
	}
	if err := unix.Ftruncate(int(seg.FD().Fd()), 0); err == nil {
		t.Error("truncate: got no error")
	}
}

func TestExistingSegmentIsAttachedAgain(t *testing.T) {
	b := makeBundle(t, t4)
	var chunks atomic.Int64
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t), Workers: 1, afterChunk: func() { chunks.Add(1) }}
	first, err := acquire(b, o)
	if err != nil {
		t.Fatal(err)
	}
	loaded := chunks.Load()
	if !first.Loaded || loaded == 0 {
		t.Errorf("first: loaded %v with %d chunks, want true and some", first.Loaded, loaded)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := acquire(b, o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Loaded || chunks.Load() != loaded {
		t.Errorf("second: loaded %v with %d more chunks, want false and none", second.Loaded, chunks.Load()-loaded)
	}
	s := attach(t, int(second.FD().Fd()), b.Manifest)
	if got, want := s.Info().Digest, b.Manifest.TablesDigest(); got != want {
		t.Errorf("digest: got %s, want %s", got, want)
	}
}

// acquire acquires the only copy.
func acquire(b *model.Bundle, o Options) (*Segment, error) {
	list, err := Acquire(context.Background(), b, o)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// Killed halfway: what is left is never used, the next start removes it and loads (I1, I2).
func TestLoaderKilledHalfway(t *testing.T) {
	b := makeBundle(t, t4)
	dir, instance := shmDir(t), testutil.Instance(t)
	o := Options{Instance: instance, Dir: dir}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+b.Dir+"|"+dir+"|"+instance)
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child: got %v, want it killed", err)
	}
	path := filepath.Join(dir, SegmentName(instance, b.Manifest.TablesDigest(), Copy{}))
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the child left nothing: %v", err)
	}
	if _, err := OpenExisting(context.Background(), b.Manifest, o); !errors.Is(err, ErrNotReady) {
		t.Errorf("open: got %v, want %v", err, ErrNotReady)
	}
	if info, err := Describe(path); !errors.Is(err, ErrNotReady) || info.Problem == "" {
		t.Errorf("describe: got %+v, %v", info, err)
	}
	seg, err := acquire(b, o)
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	if !seg.Loaded {
		t.Error("acquire: attached a half-written segment")
	}
}

func TestDigestMismatchIsNotPublished(t *testing.T) {
	b := makeBundle(t, t4)
	dir := shmDir(t)
	path := b.Path("tables/t02.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load(context.Background(), b, Options{Instance: testutil.Instance(t), Dir: dir})
	var d *DigestError
	if !errors.As(err, &d) || !errors.Is(err, ErrDigest) {
		t.Fatalf("got %v, want a *DigestError", err)
	}
	if d.File != "tables/t02.safetensors" || d.Want != b.Manifest.Digests[d.File] || d.Got == d.Want || !strings.HasPrefix(d.Got, "sha256:") {
		t.Errorf("got %+v", d)
	}
	wantEmpty(t, dir)
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A table file that loses its end while it is copied ends the load, not the process.
func TestSourceCutOffWhileLoading(t *testing.T) {
	b := makeBundle(t, []spec{{20000, 16, model.CombinerSum, model.PolicyReject}})
	dir := shmDir(t)
	cut := false
	_, err := Load(context.Background(), b, Options{
		Instance: testutil.Instance(t), Dir: dir, Workers: 1, chunkBytes: 4096,
		afterChunk: func() {
			if !cut {
				cut = true
				_ = os.Truncate(b.Path("tables/t00.safetensors"), 8192)
			}
		},
	})
	if err == nil || !cut {
		t.Fatal("got no error")
	}
	wantEmpty(t, dir)
}

func TestMissingSourcePageIsAnError(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "source"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const bytes = 64 << 10
	truncate(t, f.Name(), bytes)
	m, err := hugemem.Map(int(f.Fd()), bytes, false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	truncate(t, f.Name(), 0)
	c := tableCopy{dst: make([]byte, bytes), src: m.Bytes, layout: tableLayout{name: "t0", rows: bytes / 64, stride: 64, dim: 16, dtype: dtype.Float32}}
	err = c.chunk(context.Background(), 0, Options{}, startMeter(nil, 1, 1))
	var fault memoryFault
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), `"t0"`) {
		t.Errorf("got %v, want a memory fault of table t0", err)
	}
}

func TestCancelledLoadLeavesNothing(t *testing.T) {
	b := makeBundle(t, t4)
	dir := shmDir(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Load(ctx, b, Options{Instance: testutil.Instance(t), Dir: dir, Workers: 1, chunkBytes: 64, afterChunk: cancel})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	wantEmpty(t, dir)
}

func TestFullFilesystemIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	_, err := Load(context.Background(), makeBundle(t, t4), Options{Instance: testutil.Instance(t), Dir: dir})
	if !errors.Is(err, hugemem.ErrNoRoom) || !strings.Contains(err.Error(), "--shm-dir") {
		t.Errorf("got %v, want %v with the flag", err, hugemem.ErrNoRoom)
	}
	wantEmpty(t, dir)
}

// I3: the own instance's leftovers go, what is kept, held or another's stays.
func TestReclaim(t *testing.T) {
	dir := shmDir(t)
	mine, other := testutil.Instance(t), testutil.Instance(t)
	ctx := context.Background()
	old, kept, held := makeBundle(t, t4[:1]), makeBundle(t, t4[:2]), makeBundle(t, t4[:3])
	load := func(b *model.Bundle, instance string) *Segment {
		s, err := Load(ctx, b, Options{Instance: instance, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var stay []string
	for _, s := range []*Segment{load(kept, mine), load(old, other)} {
		stay = append(stay, s.Path)
		_ = s.Close()
	}
	inUse := load(held, mine)
	defer inUse.Close()
	stay = append(stay, inUse.Path)
	gone := load(old, mine)
	_ = gone.Close()
	half := filepath.Join(dir, SegmentName(mine, "0123456789abcdef0", Copy{}))
	if err := os.WriteFile(half, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := Reclaim(ctx, Options{Instance: mine, Dir: dir}, kept.Manifest.TablesDigest(), Copy{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(removed)
	want := []string{gone.Path, half}
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("removed: got %v, want %v", removed, want)
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("I3: %v", err)
		}
	}
	if _, err := Load(ctx, held, Options{Instance: mine, Dir: dir}); !errors.Is(err, ErrBusy) {
		t.Errorf("load over a segment in use: got %v, want %v", err, ErrBusy)
	}
}

func TestOpenExistingRefuses(t *testing.T) {
	b := makeBundle(t, t4)
	ctx := context.Background()
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
	}{
		{"truncated from outside", func(t *testing.T, path string) { truncate(t, path, 64<<10) }, ErrSize},
		{"truncated to nothing", func(t *testing.T, path string) { truncate(t, path, 0) }, ErrSize},
		{"foreign version", func(t *testing.T, path string) { poke(t, path, int64(offVersion), 99) }, ErrVersion},
		{"damaged", func(t *testing.T, path string) { poke(t, path, int64(offDigest), 99) }, ErrChecksum},
		{"writable for others", func(t *testing.T, path string) { _ = os.Chmod(path, 0o622) }, ErrOwner},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Instance: testutil.Instance(t), Dir: shmDir(t)}
			s, err := Load(ctx, b, o)
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			tt.damage(t, s.Path)
			if _, err := OpenExisting(ctx, b.Manifest, o); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			again, err := acquire(b, o)
			if errors.Is(tt.want, ErrOwner) {
				if !errors.Is(err, ErrOwner) {
					t.Errorf("acquire: got %v, want %v", err, ErrOwner)
				}
				return
			}
			if err != nil {
				t.Fatalf("acquire: %v", err)
			}
			defer again.Close()
			if !again.Loaded {
				t.Error("acquire: attached a damaged segment")
			}
		})
	}
	t.Run("nothing there", func(t *testing.T) {
		if _, err := OpenExisting(ctx, b.Manifest, Options{Instance: testutil.Instance(t), Dir: shmDir(t)}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want %v", err, os.ErrNotExist)
		}
	})
	t.Run("instance with a dot", func(t *testing.T) {
		if _, err := OpenExisting(ctx, b.Manifest, Options{Instance: "a.b"}); err == nil {
			t.Error("got no error")
		}
	})
}

func truncate(t *testing.T, path string, n int64) {
	t.Helper()
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

func poke(t *testing.T, path string, off int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{b}, off); err != nil {
		t.Fatal(err)
	}
}

func TestAttachRefusesAnotherModel(t *testing.T) {
	b, other := makeBundle(t, t4), makeBundle(t, t4[:3])
	seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t)})
	if _, err := Attach(int(seg.FD().Fd()), other.Manifest); !errors.Is(err, ErrContent) {
		t.Errorf("got %v, want %v", err, ErrContent)
	}
	moved := *b.Manifest
	moved.Packed = []model.PackedArray{{DType: moved.Packed[0].DType, Stride: 64}}
	if _, err := Attach(int(seg.FD().Fd()), &moved); !errors.Is(err, ErrGeometry) {
		t.Errorf("slot outside the packed row: got %v, want %v", err, ErrGeometry)
	}
}

func TestListDescribesWithoutAManifest(t *testing.T) {
	b := makeBundle(t, t4)
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t)}
	seg := mustLoad(t, b, o)
	all, err := List(o.Instance, o.Dir)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v, want one", all, err)
	}
	got := all[0]
	if got.Path != seg.Path || got.Problem != "" || got.Digest != b.Manifest.TablesDigest() || len(got.Tables) != 4 || got.Bytes != seg.layout.fileBytes {
		t.Errorf("got %+v", got)
	}
	if x := got.Tables[3]; x.Name != "t3" || x.Rows != 1000 || x.Dim != 8 || x.Stride != 64 || x.Bytes != 64000 || x.DType != "float32" {
		t.Errorf("got %+v", x)
	}
	if got.Pages.TotalBytes != got.Bytes || got.Pages.Mode != seg.Pages().Mode {
		t.Errorf("pages: got %+v, want as in %+v", got.Pages, seg.Pages())
	}
}

func TestProgressIsBounded(t *testing.T) {
	calls := 0
	m := startMeter(func(int64, int64) { calls++ }, 1000, 1000)
	end := time.After(350 * time.Millisecond)
	for running := true; running; {
		m.copied.Add(1)
		select {
		case <-end:
			running = false
		default:
		}
	}
	m.stop(true)
	if calls < 1 || calls > 5 {
		t.Errorf("got %d reports in 350 ms, want 1 to 5", calls)
	}
}

// Two servers of one instance, in different run directories, find the same segment.
func TestI3SegmentInUseByAnotherServerIsNotRemoved(t *testing.T) {
	b := makeBundle(t, t4)
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small}
	first := mustLoad(t, b, o)
	second, err := OpenExisting(context.Background(), b.Manifest, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(second.Path); err != nil {
		t.Errorf("the segment was removed under the other server: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(second.Remove(), second.Close()); err != nil {
		t.Error(err)
	}
	wantEmpty(t, o.Dir)
}
