package pjrt_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/pjrttest"
)

func TestPluginOfAnotherPlatformIsRefused(t *testing.T) {
	both(t, checkPluginOfAnotherPlatformIsRefused)
}

func checkPluginOfAnotherPlatformIsRefused(t *testing.T, backend string) {
	o := dotOptions(t, backend)
	o.Platform = "tpu"
	if _, err := pjrt.New(o); err == nil || !strings.Contains(err.Error(), `got platform "cpu", want "tpu"`) || !errors.Is(err, executor.ErrPermanent) {
		t.Errorf("got %v", err)
	}
}

func TestCorruptPluginFilesAreErrors(t *testing.T) {
	good := pjrttest.CPU(t)
	dir := t.TempDir()
	write := func(name string, limit int64) string {
		src, err := os.Open(good)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		path := filepath.Join(dir, name)
		dst, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Close()
		if _, err := io.CopyN(dst, src, limit); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info, err := os.Stat(good)
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a library\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"missing":         {filepath.Join(dir, "none.so"), "no such file or directory; install it with: deploy/plugins/install_plugin.sh cpu"},
		"folder":          {dir, "want a file"},
		"text":            {text, "is not a complete shared library"},
		"header only":     {write("short.so", 100), "is not a complete shared library"},
		"half":            {write("half.so", info.Size()/2), "is not a complete shared library"},
		"last byte gone":  {write("cut.so", info.Size()-1), "is not a complete shared library"},
		"no plugin":       {libc(t), "exports no GetPjrtApi"},
		"empty file":      {write("empty.so", 0), "is not a complete shared library"},
		"not even a path": {"\x00", "open plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			o := dotOptions(t, pjrt.BackendShim)
			o.PluginPath = c.path
			_, err := pjrt.New(o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, executor.ErrPermanent) {
				t.Errorf("got %v, want a permanent error with %q", err, c.want)
			}
		})
	}
}

// libc returns a shared library that is no plugin.
func libc(t *testing.T) string {
	for _, p := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"} {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
	}
	t.Skip("no libc.so.6 in the usual places")
	return ""
}

func TestI5NothingIsWrittenToStderr(t *testing.T) { both(t, checkNothingIsWrittenToStderr) }

func checkNothingIsWrittenToStderr(t *testing.T, backend string) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	saved, err := unix.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(saved)
	if err := unix.Dup3(int(file.Fd()), 2, 0); err != nil {
		t.Fatal(err)
	}
	restore := sync.OnceFunc(func() { _ = unix.Dup3(saved, 2, 0) })
	defer restore()
	o := dotOptions(t, backend)
	e, err := pjrt.New(o)
	if err == nil {
		err = e.Compile(context.Background(), 16)
	}
	if err == nil {
		err = e.Close()
	}
	restore()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("stderr got %q (%v), want nothing", text, err)
	}
}

func TestThreadsAreBounded(t *testing.T) { both(t, checkThreadsAreBounded) }

func checkThreadsAreBounded(t *testing.T, backend string) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	first := -1
	for c := range 1024 {
		if set.IsSet(c) {
			first = c
			break
		}
	}
	o := dotOptions(t, backend)
	o.DeviceThreads = 1
	var log bytes.Buffer
	o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	e := open(t, o, 4)
	b := &executor.Batch{Bucket: 4, Rows: 4, Arrays: [][]byte{make([]byte, 4*64)}, Scores: make([]byte, 16)}
	score(t, e, b)
	if !strings.Contains(log.String(), `"device_threads":1`) {
		t.Errorf("log: got %s", log.String())
	}
	if set.Count() > 1 {
		if n := pinnedThreads(t, first); n == 0 {
			t.Errorf("threads pinned to CPU %d: got none", first)
		}
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != set {
		t.Errorf("affinity of the caller: got %v (%v), want it unchanged", after, err)
	}
	o.CPUs = []int{1 << 20}
	if _, err := pjrt.New(o); err == nil || !strings.Contains(err.Error(), "choose CPU 1048576") || !errors.Is(err, executor.ErrPermanent) {
		t.Errorf("unknown CPU: got %v", err)
	}
}

// pinnedThreads counts this process's threads that may run on one CPU only.
func pinnedThreads(t *testing.T, cpu int) (n int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var only unix.CPUSet
	only.Set(cpu)
	for _, task := range tasks {
		tid := 0
		for _, c := range task.Name() {
			tid = tid*10 + int(c-'0')
		}
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil && set == only {
			n++
		}
	}
	return n
}

func TestUnknownPluginErrorListsPlaces(t *testing.T) {
	t.Setenv(pjrt.PathVariable, "/nowhere/a:/nowhere/b.so")
	_, err := pjrt.ResolvePlugin("", "tpu")
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"/nowhere/a/tpu/libtpu.so", "/nowhere/a/libtpu.so", "/nowhere/b.so", ".build/plugins/tpu/libtpu.so",
		"/usr/lib/rankd/plugins/tpu/libtpu.so", "/usr/local/lib/rankd/plugins/tpu/libtpu.so", "deploy/plugins/install_plugin.sh tpu",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
