package pjrt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/internal/dtype"
)

// goroutines is for devices that have no ends of their own: each started run has a goroutine.
type goroutines struct{ ends chan arrival }

func newGoroutines() goroutines { return goroutines{make(chan arrival, 16)} }

func (g goroutines) start(run func() error, tag int) (over bool, err error) {
	go func() { g.ends <- arrival{tag, run()} }()
	return false, nil
}

func (g goroutines) next() (arrival, bool) {
	a, ok := <-g.ends
	return a, ok
}

func (g goroutines) stop() { close(g.ends) }

// brokenDevice stands in for a plugin whose programs fail.
type brokenDevice struct {
	goroutines
	err   func(bucket int) error // of the next runs
	runs  atomic.Int64
	freed atomic.Int64
}

func (d *brokenDevice) describe() string { return "broken" }
func (d *brokenDevice) close() error     { return nil }
func (d *brokenDevice) compile(bucket int, _ []byte) (runner, error) {
	return &brokenProgram{d, bucket}, nil
}

type brokenProgram struct {
	device *brokenDevice
	bucket int
}

func (p *brokenProgram) run([][]byte, []byte) error {
	p.device.runs.Add(1)
	return p.device.err(p.bucket)
}

func (p *brokenProgram) start(arrays [][]byte, scores []byte, tag int) (bool, error) {
	return p.device.goroutines.start(func() error { return p.run(arrays, scores) }, tag)
}

func (p *brokenProgram) close() error { p.device.freed.Add(1); return nil }

func status(code int, text string) error {
	return pluginError(fmt.Errorf("call the plugin: PJRT error (code=%d): %s", code, text))
}

func launchBroken(t *testing.T, d *brokenDevice) (e *Executor, first error) {
	t.Helper()
	o := Options{
		Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4, Depth: 1,
		Program: func(int) ([]byte, error) { return []byte("x"), nil },
	}
	e = newExecutor(d, &o, pinning{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := e.Close(); err != nil || d.freed.Load() != 2 {
			t.Errorf("close: got %v and %d programs freed, want none and 2", err, d.freed.Load())
		}
	})
	for _, b := range []int{2, 8} {
		if err := e.Compile(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	b := &executor.Batch{Bucket: 8, Rows: 8, Arrays: [][]byte{make([]byte, 8*64)}, Scores: make([]byte, 32)}
	if err := e.Launch(b, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	return e, <-done
}

func TestErrorOfOneBatchLeavesTheDeviceUsable(t *testing.T) {
	d := &brokenDevice{goroutines: newGoroutines(), err: func(bucket int) error {
		if bucket == 8 {
			return status(13, "this batch only")
		}
		return nil
	}}
	e, err := launchBroken(t, d)
	var said *Error
	if !errors.As(err, &said) || said.Code != 13 || errors.Is(err, executor.ErrDead) {
		t.Errorf("got %v, want an internal error that is not fatal", err)
	}
	if d.runs.Load() != 2 {
		t.Errorf("got %d runs, want the batch and a probe", d.runs.Load())
	}
	b := &executor.Batch{Bucket: 2, Rows: 1, Arrays: [][]byte{make([]byte, 2*64)}, Scores: make([]byte, 8)}
	done := make(chan error, 1)
	if err := e.Launch(b, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDeviceThatFailsItsProbeIsDead(t *testing.T) {
	d := &brokenDevice{goroutines: newGoroutines(), err: func(int) error { return status(14, "device lost") }}
	e, err := launchBroken(t, d)
	if !errors.Is(err, executor.ErrDead) || !strings.Contains(err.Error(), "unavailable: device lost") {
		t.Errorf("got %v, want ErrDead with the plugin's words", err)
	}
	b := &executor.Batch{Bucket: 2, Rows: 1, Arrays: [][]byte{make([]byte, 2*64)}, Scores: make([]byte, 8)}
	if err := e.Launch(b, func(error) { t.Error("done was called") }); !errors.Is(err, executor.ErrDead) {
		t.Errorf("next launch: got %v, want ErrDead", err)
	}
}

func TestLackOfMemoryIsNoReasonToProbe(t *testing.T) {
	d := &brokenDevice{goroutines: newGoroutines(), err: func(int) error { return status(8, "out of memory") }}
	_, err := launchBroken(t, d)
	if err == nil || errors.Is(err, executor.ErrDead) || d.runs.Load() != 1 {
		t.Errorf("got %v after %d runs, want one run and an error of the batch alone", err, d.runs.Load())
	}
}

func TestPluginErrorsAreShortenedAndNamed(t *testing.T) {
	err := status(3, strings.Repeat("x", 10*maxMessage)+"=== Source Location Trace: ===\na.cc:1")
	if got := err.Error(); len(got) > maxMessage+100 || !strings.HasPrefix(got, "invalid_argument: xxx") {
		t.Errorf("got %d bytes: %.40s", len(got), got)
	}
	if got := status(5, "no such thing\n=== Source Location Trace: ===\na.cc:1").Error(); got != "not_found: no such thing" {
		t.Errorf("got %q", got)
	}
	if got := Code(99).String(); got != "code 99" {
		t.Errorf("got %q", got)
	}
}

// Only what the plugin says of its input stays wrong; what it says of its state may pass.
func TestCompileErrorsArePermanentByTheirCode(t *testing.T) {
	for code, want := range map[Code]bool{
		CodeInvalidArgument: true, CodeUnimplemented: true,
		CodeResourceExhausted: false, 2: false, 4: false, 13: false, 14: false,
	} {
		d := &refusingDevice{brokenDevice: &brokenDevice{goroutines: newGoroutines()}, err: status(int(code), "no")}
		o := Options{Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4, Program: func(int) ([]byte, error) { return []byte("x"), nil }}
		e := newExecutor(d, &o, pinning{}, slog.New(slog.DiscardHandler))
		if err := e.Compile(t.Context(), 2); err == nil || errors.Is(err, executor.ErrPermanent) != want {
			t.Errorf("%v: got %v, want permanent: %v", code, err, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for code, want := range map[int]bool{2: true, 3: true, 12: true, 8: false, 13: false} {
		if err := refused(status(code, "no")); errors.Is(err, executor.ErrPermanent) != want {
			t.Errorf("compiler's code %v: permanent: got %v, want %v", Code(code), !want, want)
		}
	}
	for text, want := range map[string]bool{
		"libcudart.so.12: cannot open shared object file: No such file or directory": true,
		"x.so: failed to map segment: Cannot allocate memory":                        false,
		"x.so: cannot open shared object file: Too many open files":                  false,
	} {
		if err := notLoaded("x.so", errors.New(text)); errors.Is(err, executor.ErrPermanent) != want {
			t.Errorf("%s: permanent: got %v, want %v", text, !want, want)
		}
	}
}

// refusingDevice compiles nothing.
type refusingDevice struct {
	*brokenDevice
	err error
}

func (d *refusingDevice) compile(int, []byte) (runner, error) { return nil, d.err }

func TestLaunchBeyondDepthIsRefused(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	d := &brokenDevice{goroutines: newGoroutines(), err: func(int) error {
		entered <- true
		<-leave
		return nil
	}}
	o := Options{
		Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4, Depth: 2,
		Program: func(int) ([]byte, error) { return []byte("x"), nil },
	}
	e := newExecutor(d, &o, pinning{}, slog.New(slog.DiscardHandler))
	if err := e.Compile(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	batch := func() *executor.Batch {
		return &executor.Batch{Bucket: 2, Rows: 1, Arrays: [][]byte{make([]byte, 2*64)}, Scores: make([]byte, 8)}
	}
	ends := make(chan error, 2)
	for range 2 {
		if err := e.Launch(batch(), func(err error) { ends <- err }); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	<-entered
	if err := e.Launch(batch(), func(error) { t.Error("done was called") }); err == nil || !strings.Contains(err.Error(), "more than 2 in flight") {
		t.Errorf("third launch: got %v", err)
	}
	close(leave)
	for range 2 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
