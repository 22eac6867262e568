package pjrt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/internal/dtype"
)

// keepingDevice is a brokenDevice that makes images: the image of a program is "image".
type keepingDevice struct {
	brokenDevice
	refuse   error    // of serialize
	spoiled  error    // of load
	asked    int      // calls of serialize
	identity identity // API and Platform are there if it is zero
	loads    []bool
}

func (d *keepingDevice) identify() identity {
	if d.identity.Platform == "" {
		return identity{API: "0.1", Platform: "test"}
	}
	return d.identity
}

func (d *keepingDevice) serialize(runner) ([]byte, error) {
	d.asked++
	return []byte("image"), d.refuse
}

func (d *keepingDevice) load(bucket int, image []byte, run bool) (runner, error) {
	d.loads = append(d.loads, run)
	if d.spoiled != nil || string(image) != "image" {
		return nil, errors.Join(d.spoiled, errors.New("image does not work"))
	}
	return &brokenProgram{&d.brokenDevice, bucket}, nil
}

// keeping makes an executor over d that keeps its programs in dir. plugin stands for the plugin's file.
func keeping(t *testing.T, d *keepingDevice, dir, plugin string, log *slog.Logger) *Executor {
	t.Helper()
	return keepingWith(t, d, dir, "", plugin, log)
}

// keepingWith is keeping with a bundle.
func keepingWith(t *testing.T, d *keepingDevice, dir, bundle, plugin string, log *slog.Logger) *Executor {
	t.Helper()
	d.goroutines = newGoroutines()
	if d.err == nil {
		d.err = func(int) error { return nil }
	}
	o := Options{
		Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4, Depth: 1, CacheDir: dir, BundleDir: bundle,
		Program: func(int) ([]byte, error) { return []byte("x"), nil },
	}
	e := newExecutor(d, &o, pinning{}, log)
	s, err := openStore(&o, plugin, log)
	if err != nil {
		t.Fatal(err)
	}
	s.bind(d, &o, pinning{})
	e.store = s
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func pluginFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func compileAll(t *testing.T, e *Executor, buckets ...int) {
	t.Helper()
	for _, b := range buckets {
		if err := e.Compile(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPluginThatRefusesToSerializeIsAskedOnce(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	dir, plugin := filepath.Join(t.TempDir(), "cache"), pluginFile(t, t.Name())
	for range 2 { // the second executor of the process does not ask either
		d := &keepingDevice{refuse: status(12, "not implemented")}
		e := keeping(t, d, dir, plugin, logger)
		compileAll(t, e, 1, 2, 4)
		if total, _ := e.Compiles(); total != 3 {
			t.Errorf("got %d compiles, want 3", total)
		}
		if d.asked > 1 {
			t.Errorf("got %d requests to serialize, want at most 1", d.asked)
		}
	}
	if n := strings.Count(log.String(), "does not serialize"); n != 1 {
		t.Errorf("got %d lines about it, want 1: %s", n, log.String())
	}
}

func TestImageThatDoesNotLoadIsReplaced(t *testing.T) {
	var log bytes.Buffer
	dir, plugin := filepath.Join(t.TempDir(), "cache"), pluginFile(t, t.Name())
	compileAll(t, keeping(t, &keepingDevice{}, dir, plugin, slog.New(slog.DiscardHandler)), 2)
	d := &keepingDevice{spoiled: status(13, "of another world")}
	e := keeping(t, d, dir, plugin, slog.New(slog.NewTextHandler(&log, nil)))
	compileAll(t, e, 2)
	if total, _ := e.Compiles(); total != 1 || d.asked != 1 || !strings.Contains(log.String(), "of another world") {
		t.Errorf("got %d compiles, %d images, log %s", total, d.asked, log.String())
	}
	warm := keeping(t, &keepingDevice{}, dir, plugin, slog.New(slog.DiscardHandler))
	compileAll(t, warm, 2)
	if total, _ := warm.Compiles(); total != 0 {
		t.Errorf("after the repair: got %d compiles, want 0", total)
	}
}

func TestI7LargeCachedProgramsAreProvedByTheirFirstRun(t *testing.T) {
	dir, plugin := filepath.Join(t.TempDir(), "cache"), pluginFile(t, t.Name())
	quiet := slog.New(slog.DiscardHandler)
	compileAll(t, keeping(t, &keepingDevice{}, dir, plugin, quiet), provenRows, provenRows+1)
	entries := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "*.exe"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	launch := func(e *Executor, bucket int) error {
		done := make(chan error, 1)
		b := &executor.Batch{Bucket: bucket, Rows: 1, Arrays: [][]byte{make([]byte, bucket*64)}, Scores: make([]byte, bucket*4)}
		if err := e.Launch(b, func(err error) { done <- err }); err != nil {
			return err
		}
		return <-done
	}

	good := &keepingDevice{}
	e := keeping(t, good, dir, plugin, quiet)
	compileAll(t, e, provenRows, provenRows+1)
	if len(good.loads) != 2 || !good.loads[0] || good.loads[1] {
		t.Errorf("got runs on zeros %v, want only of the small bucket", good.loads)
	}
	good.err = func(int) error {
		markers, err := filepath.Glob(filepath.Join(dir, "*.trial"))
		if err != nil || len(markers) != int(2-good.runs.Load()) {
			t.Errorf("run %d: got markers %v (%v), want one in the first run only", good.runs.Load(), markers, err)
		}
		return nil
	}
	for range 2 {
		if err := launch(e, provenRows+1); err != nil {
			t.Error(err)
		}
	}

	full := &keepingDevice{brokenDevice: brokenDevice{err: func(int) error { return status(8, "out of memory") }}}
	e = keeping(t, full, dir, plugin, quiet)
	compileAll(t, e, provenRows, provenRows+1)
	if err := launch(e, provenRows+1); err == nil || errors.Is(err, executor.ErrDead) || entries() != 2 {
		t.Errorf("no memory: got %v and %d entries, want an error of the batch alone and both", err, entries())
	}

	bad := &keepingDevice{brokenDevice: brokenDevice{err: func(bucket int) error {
		if bucket > provenRows {
			return status(13, "bad code")
		}
		return nil
	}}}
	e = keeping(t, bad, dir, plugin, quiet)
	compileAll(t, e, provenRows, provenRows+1)
	if err := launch(e, provenRows+1); !errors.Is(err, executor.ErrDead) || entries() != 1 {
		t.Errorf("bad code: got %v and %d entries, want ErrDead and one", err, entries())
	}
	if err := launch(e, provenRows); !errors.Is(err, executor.ErrDead) {
		t.Errorf("afterwards: got %v, want ErrDead", err)
	}
}

func TestProcessThatDiedInAFirstRunIsNotFollowed(t *testing.T) {
	dir, plugin := filepath.Join(t.TempDir(), "cache"), pluginFile(t, t.Name())
	quiet := slog.New(slog.DiscardHandler)
	const bucket = 2 * provenRows
	compileAll(t, keeping(t, &keepingDevice{}, dir, plugin, quiet), bucket)
	names, err := filepath.Glob(filepath.Join(dir, "*.exe"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got %v (%v), want one entry", names, err)
	}
	// The marker of a process that is no more: nobody holds its lock.
	if err := os.WriteFile(names[0]+".1-2-3.trial", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := keeping(t, &keepingDevice{}, dir, plugin, quiet)
	compileAll(t, next, bucket)
	if total, _ := next.Compiles(); total != 1 {
		t.Errorf("got %d compiles, want 1", total)
	}
}

func TestUnusedPreloadsAreFreed(t *testing.T) {
	dir, plugin := filepath.Join(t.TempDir(), "cache"), pluginFile(t, t.Name())
	quiet := slog.New(slog.DiscardHandler)
	compileAll(t, keeping(t, &keepingDevice{}, dir, plugin, quiet), 1, 2)
	d := &keepingDevice{}
	e := keeping(t, d, dir, plugin, quiet)
	e.preloads.start(e, []int{1, 2, 4})
	compileAll(t, e, 1)
	if err := e.Close(); err != nil || d.freed.Load() != 2 {
		t.Errorf("got %v and %d programs freed, want both that were loaded", err, d.freed.Load())
	}
}
