package pjrt_test

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/internal/dtype"
)

// buildPlugin compiles the device of testdata/plugin.c, which fails when it is told to.
func buildPlugin(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.so")
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-o", path}, flags...)
	if out, err := exec.Command("cc", append(args, filepath.Join("testdata", "plugin.c"))...).CombinedOutput(); err != nil {
		t.Fatalf("compile plugin: %v: %s", err, out)
	}
	return path
}

// plans numbers the plans of a process, so that each begins a new count.
var plans atomic.Int64

// tell makes the device fail the call of a function after some others, or with slot -1 an event.
func tell(t *testing.T, slot, after int) {
	t.Setenv("RANKD_TEST_PLUGIN", fmt.Sprintf("%d:%d:%d", slot, after, plans.Add(1)))
}

func pluginOptions(path string, memory pjrt.HostMemory) pjrt.Options {
	return pjrt.Options{
		PluginPath: path, Depth: 2, HostMemory: memory, ScoreBytes: 4,
		Program: func(rows int) ([]byte, error) { return fmt.Appendf(nil, "rows=%d", rows), nil },
		Inputs:  []pjrt.Input{{Packed: 0}, {Packed: 1}},
		Arrays:  []pjrt.Array{{DType: dtype.Float32, Stride: 64}, {DType: dtype.Float32, Stride: 64}},
	}
}

// pluginBatch is one whose i-th row has the sum base + i.
func pluginBatch(bucket int, base float32) *executor.Batch {
	b := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*64), make([]byte, bucket*64)}, Scores: make([]byte, bucket*4)}
	for r := range bucket {
		copy(b.Arrays[0][r*64:], floats(base))
		copy(b.Arrays[1][r*64:], floats(float32(r)))
	}
	return b
}

func wantSums(t *testing.T, b *executor.Batch, base float32) {
	t.Helper()
	for r := range b.Rows {
		if got, want := float(b.Scores, r), base+float32(r); got != want {
			t.Errorf("row %d: got %v, want %v", r, got, want)
			return
		}
	}
}

// Whatever function or event of the plugin fails in a batch, the batch ends with the plugin's words and code, nothing of it is
// left on either side, and the next one is scored. Close fails if the plugin finds that it still has an object.
func TestI2FailuresOfThePluginLeaveNothingBehind(t *testing.T) {
	path := buildPlugin(t)
	const bucket = 8
	for _, memory := range []pjrt.HostMemory{pjrt.CopyRows, pjrt.LendRowsForTransfer, pjrt.LendRows} {
		t.Run(fmt.Sprintf("memory %d", memory), func(t *testing.T) {
			e := open(t, pluginOptions(path, memory), bucket)
			objects := pjrt.ObjectsAlive()
			for n, f := range []struct {
				name        string
				slot, after int
				code        pjrt.Code
			}{
				{"pj_client_upload", 22, 0, 13},
				{"pj_client_upload", 22, 1, 13},
				{"pj_loaded_execute", 55, 0, 13},
				{"pj_buffer_download", 70, 0, 13},
				{"pj_event_on_ready", 9, 0, 13},
				{"pj_event_on_ready", 9, 1, 13},
				{"pj_event_on_ready", 9, 2, 13},
				{"an event", -1, 0, 14},
				{"an event", -1, 1, 14},
				{"an event", -1, 2, 14},
			} {
				t.Run(fmt.Sprintf("%s %d", f.name, f.after), func(t *testing.T) {
					tell(t, f.slot, f.after)
					err := launch(t, e, pluginBatch(bucket, 1))
					var said *pjrt.Error
					if !errors.As(err, &said) || said.Code != f.code || !strings.Contains(said.Message, "told to fail") || errors.Is(err, executor.ErrDead) {
						t.Errorf("got %v, want an error with the plugin's code %v and words", err, f.code)
					}
					if got := pjrt.ObjectsAlive(); !maps.Equal(got, objects) {
						t.Errorf("objects: got %v, want %v", got, objects)
					}
					base := float32(100 * n)
					b := pluginBatch(bucket, base)
					score(t, e, b)
					wantSums(t, b, base)
				})
			}
		})
	}
}

// launch runs one batch and returns how it ended.
func launch(t *testing.T, e *pjrt.Executor, b *executor.Batch) error {
	t.Helper()
	done := make(chan error, 1)
	if err := e.Launch(b, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	return <-done
}

// A bucket that cannot be compiled or checked leaves nothing behind either.
func TestFailuresOfACompilationLeaveNothingBehind(t *testing.T) {
	o := pluginOptions(buildPlugin(t), pjrt.CopyRows)
	for slot, name := range map[int]string{20: "compile", 51: "executable", 44: "result count", 22: "upload", 55: "execute", 59: "type", 70: "download", -1: "event"} {
		t.Run(name, func(t *testing.T) {
			e := open(t, o)
			tell(t, slot, 0)
			if err := e.Compile(t.Context(), 4); err == nil || !strings.Contains(err.Error(), "told to fail") {
				t.Errorf("got %v, want the plugin's words", err)
			}
			if err := e.Compile(t.Context(), 4); err != nil {
				t.Errorf("another try: %v", err)
			}
		})
	}
}

func TestDeviceThatDoesNotOpenIsAnError(t *testing.T) {
	o := pluginOptions(buildPlugin(t), pjrt.CopyRows)
	tell(t, 10, 0)
	objects := pjrt.ObjectsAlive()
	if _, err := pjrt.New(o); err == nil || !strings.Contains(err.Error(), "told to fail") {
		t.Errorf("got %v, want the plugin's words", err)
	}
	if got := pjrt.ObjectsAlive(); !maps.Equal(got, objects) {
		t.Errorf("objects: got %v, want %v", got, objects)
	}
}

// Close fails if the plugin finds memory that is still mapped.
func TestHostMemoryIsMappedUntilClose(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	for flag, want := range map[string]bool{"-DWITH_DMA": true, "-DWITHOUT_DMA": false, "-DSHORT_TABLE": false} {
		t.Run(flag, func(t *testing.T) {
			e := open(t, pluginOptions(buildPlugin(t, flag), pjrt.LendRows), 4)
			if want {
				tell(t, 110, 0)
				if mapped, err := e.MapHost(mem); mapped || err == nil || !strings.Contains(err.Error(), "map 65536 bytes of host memory: internal: told to fail") {
					t.Errorf("got %v, %v, want the plugin's words", mapped, err)
				}
			}
			if mapped, err := e.MapHost(mem); mapped != want || err != nil {
				t.Errorf("got %v, %v, want %v", mapped, err, want)
			}
			b := pluginBatch(4, 7)
			score(t, e, b)
			wantSums(t, b, 7)
		})
	}
}

// The device takes its time, so that batches arrive later. Their memory is overwritten as soon as done is called; no score may
// come from what was written over it.
func TestI1HostMemoryIsFreeOnALateDevice(t *testing.T) {
	path := buildPlugin(t)
	const depth, rounds, bucket = 4, 1000, 4
	for _, memory := range []pjrt.HostMemory{pjrt.CopyRows, pjrt.LendRowsForTransfer, pjrt.LendRows} {
		t.Run(fmt.Sprintf("memory %d", memory), func(t *testing.T) {
			o := pluginOptions(path, memory)
			o.Depth = depth
			e := open(t, o, bucket)
			ends := make(chan int, depth)
			batches := make([]*executor.Batch, rounds)
			start := func(n int) {
				batches[n] = pluginBatch(bucket, float32(n))
				if err := e.Launch(batches[n], func(err error) {
					if err != nil {
						t.Error(err)
					}
					for _, a := range batches[n].Arrays {
						for i := range a {
							a[i] = 0xff // NaN
						}
					}
					ends <- n
				}); err != nil {
					t.Fatal(err)
				}
			}
			for n := range depth {
				start(n)
			}
			for n := depth; n < rounds+depth; n++ {
				ended := <-ends
				wantSums(t, batches[ended], float32(ended))
				if n < rounds {
					start(n)
				}
			}
		})
	}
}
