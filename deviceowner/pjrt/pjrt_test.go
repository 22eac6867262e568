package pjrt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	xla "github.com/gomlx/go-xla/pkg/pjrt"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/dtype"
)

// dot multiplies the first four columns of the row by the weights and adds the bias: [B, 1].
const dot = `module @dot { func.func public @main(%w: tensor<4x1xf32>, %x: tensor<@B@x16xf32>, %b: tensor<1xf32>) -> tensor<@B@x1xf32> {
  %s = stablehlo.slice %x [0:@B@, 0:4] : (tensor<@B@x16xf32>) -> tensor<@B@x4xf32>
  %d = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<@B@x4xf32>, tensor<4x1xf32>) -> tensor<@B@x1xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<1xf32>) -> tensor<@B@x1xf32>
  %r = stablehlo.add %d, %c : tensor<@B@x1xf32>
  return %r : tensor<@B@x1xf32>
} }`

// mixed takes three packed arrays of different element types and returns three columns: f[0]×2, i[1], u[2].
const mixed = `module @mixed { func.func public @main(%f: tensor<@B@x16xf32>, %u: tensor<@B@x64xui8>, %i: tensor<@B@x16xi32>) -> tensor<@B@x3xf32> {
  %f0 = stablehlo.slice %f [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
  %f2 = stablehlo.add %f0, %f0 : tensor<@B@x1xf32>
  %i1 = stablehlo.slice %i [0:@B@, 1:2] : (tensor<@B@x16xi32>) -> tensor<@B@x1xi32>
  %ic = stablehlo.convert %i1 : (tensor<@B@x1xi32>) -> tensor<@B@x1xf32>
  %u2 = stablehlo.slice %u [0:@B@, 2:3] : (tensor<@B@x64xui8>) -> tensor<@B@x1xui8>
  %uc = stablehlo.convert %u2 : (tensor<@B@x1xui8>) -> tensor<@B@x1xf32>
  %r = stablehlo.concatenate %f2, %ic, %uc, dim = 1 : (tensor<@B@x1xf32>, tensor<@B@x1xf32>, tensor<@B@x1xf32>) -> tensor<@B@x3xf32>
  return %r : tensor<@B@x3xf32>
} }`

func floats(v ...float32) []byte {
	b := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
	return b
}

func float(b []byte, i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) }

// both runs a test over each backend: they behave alike.
func both(t *testing.T, test func(t *testing.T, backend string)) {
	for _, b := range []string{pjrt.BackendShim, pjrt.BackendGoXLA} {
		t.Run(b, func(t *testing.T) { test(t, b) })
	}
}

func dotOptions(t testing.TB, backend string) pjrt.Options {
	return pjrt.WithBackend(pjrt.Options{
		PluginPath: pjrttest.CPU(t), Platform: "cpu", Program: pjrttest.Batch(dot),
		Inputs: []pjrt.Input{
			{Weight: &pjrt.Weight{Name: "w", DType: dtype.Float32, Shape: []int{4, 1}, Data: floats(1, 10, 100, 1000)}},
			{Packed: 0},
			{Weight: &pjrt.Weight{Name: "b", DType: dtype.Float32, Shape: []int{1}, Data: floats(0.5)}},
		},
		Arrays: []pjrt.Array{{DType: dtype.Float32, Stride: 64}}, ScoreBytes: 4,
	}, backend)
}

// open makes an executor whose buckets are compiled and checks at the end that nothing stays on the device.
func open(t testing.TB, o pjrt.Options, buckets ...int) *pjrt.Executor {
	t.Helper()
	before := xla.BuffersAlive()
	programs := xla.LoadedExecutablesAlive()
	objects := pjrt.ObjectsAlive()
	e, err := pjrt.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if got := xla.BuffersAlive(); got != before {
			t.Errorf("device buffers alive after Close: got %d, want %d", got, before)
		}
		if got := xla.LoadedExecutablesAlive(); got != programs {
			t.Errorf("programs alive after Close: got %d, want %d", got, programs)
		}
		if got := pjrt.ObjectsAlive(); !maps.Equal(got, objects) {
			t.Errorf("objects alive after Close: got %v, want %v", got, objects)
		}
	})
	for _, b := range buckets {
		if err := e.Compile(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// score runs one batch and waits for it.
func score(t testing.TB, e executor.Executor, b *executor.Batch) {
	t.Helper()
	done := make(chan error, 1)
	if err := e.Launch(b, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestScoresAreExactInEveryBucket(t *testing.T) { both(t, checkScoresAreExactInEveryBucket) }

func checkScoresAreExactInEveryBucket(t *testing.T, backend string) {
	e := open(t, dotOptions(t, backend), 1, 8, 32)
	if name := e.Name(); !strings.HasPrefix(name, "pjrt cpu (") || e.Simulated() {
		t.Errorf("got name %q, simulated %v", name, e.Simulated())
	}
	for _, bucket := range []int{1, 8, 32} {
		b := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*64)}, Scores: make([]byte, bucket*4)}
		for r := range bucket {
			copy(b.Arrays[0][r*64:], floats(float32(r), 1, 2, 3, 99))
		}
		score(t, e, b)
		for r := range bucket {
			if got, want := float(b.Scores, r), float32(r)+3210.5; got != want {
				t.Errorf("bucket %d row %d: got %v, want %v", bucket, r, got, want)
			}
		}
	}
	if total, late := e.Compiles(); total != 3 || late != 0 {
		t.Errorf("compiles: got %d, %d late; want 3, 0", total, late)
	}
}

func TestSeveralArraysAndColumnsKeepTheirPlaces(t *testing.T) {
	both(t, checkSeveralArraysAndColumnsKeepTheirPlaces)
}

func checkSeveralArraysAndColumnsKeepTheirPlaces(t *testing.T, backend string) {
	const bucket = 4
	e := open(t, pjrt.WithBackend(pjrt.Options{
		PluginPath: pjrttest.CPU(t), Platform: "cpu", Program: pjrttest.Batch(mixed),
		Inputs:     []pjrt.Input{{Packed: 0}, {Packed: 2}, {Packed: 1}},
		Arrays:     []pjrt.Array{{dtype.Float32, 64}, {dtype.Int32, 64}, {dtype.Uint8, 64}},
		ScoreBytes: 12,
	}, backend), bucket)
	b := &executor.Batch{Bucket: bucket, Rows: bucket, Scores: make([]byte, bucket*12)}
	for range 3 {
		b.Arrays = append(b.Arrays, make([]byte, bucket*64))
	}
	for r := range bucket {
		copy(b.Arrays[0][r*64:], floats(float32(r)+0.25))
		binary.LittleEndian.PutUint32(b.Arrays[1][r*64+4:], uint32(-1000-r))
		b.Arrays[2][r*64+2] = byte(200 + r)
	}
	score(t, e, b)
	for r := range bucket {
		for c, want := range []float32{2*float32(r) + 0.5, float32(-1000 - r), float32(200 + r)} {
			if got := float(b.Scores, r*3+c); got != want {
				t.Errorf("row %d column %d: got %v, want %v", r, c, got, want)
			}
		}
	}
}

func TestI2NoBufferOutlivesItsBatch(t *testing.T) { both(t, checkNoBufferOutlivesItsBatch) }

func checkNoBufferOutlivesItsBatch(t *testing.T, backend string) {
	e := open(t, dotOptions(t, backend), 8)
	b := &executor.Batch{Bucket: 8, Rows: 3, Arrays: [][]byte{make([]byte, 8*64)}, Scores: make([]byte, 32)}
	score(t, e, b)
	idle, objects := xla.BuffersAlive(), pjrt.ObjectsAlive()
	for range 50 {
		score(t, e, b)
	}
	if got := xla.BuffersAlive(); got != idle {
		t.Errorf("device buffers after 50 batches: got %d, want %d", got, idle)
	}
	if got := pjrt.ObjectsAlive(); !maps.Equal(got, objects) {
		t.Errorf("objects after 50 batches: got %v, want %v", got, objects)
	}
}

func TestI3ProgramsWithAnotherResultAreRefused(t *testing.T) {
	both(t, checkProgramsWithAnotherResultAreRefused)
}

func checkProgramsWithAnotherResultAreRefused(t *testing.T, backend string) {
	module := func(result, body string) string {
		return `module @m { func.func public @main(%w: tensor<4x1xf32>, %x: tensor<@B@x16xf32>, %b: tensor<1xf32>) -> ` + result + ` {` + body + `} }`
	}
	for name, c := range map[string]struct{ text, want string }{
		"two results": {
			module("(tensor<@B@x16xf32>, tensor<1xf32>)", "return %x, %b : tensor<@B@x16xf32>, tensor<1xf32>"),
			"got 2 results, want 1 of float32 [8 1]",
		},
		"more columns": {module("tensor<@B@x16xf32>", "return %x : tensor<@B@x16xf32>"), "[8 16], want float32 [8 1]"},
		"fixed batch":  {module("tensor<1xf32>", "return %b : tensor<1xf32>"), "[1], want float32 [8 1]"},
		"transposed": {
			module("tensor<1x@B@xf32>", `%s = stablehlo.slice %x [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
			%r = stablehlo.transpose %s, dims = [1, 0] : (tensor<@B@x1xf32>) -> tensor<1x@B@xf32>
			return %r : tensor<1x@B@xf32>`), "[1 8], want float32 [8 1]",
		},
		"integers": {
			module("tensor<@B@x1xi32>", `%s = stablehlo.slice %x [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
			%r = stablehlo.convert %s : (tensor<@B@x1xf32>) -> tensor<@B@x1xi32>
			return %r : tensor<@B@x1xi32>`), "int32 [8 1], want float32 [8 1]",
		},
		"wider rows": {strings.ReplaceAll(dot, "x16xf32", "x32xf32"), "run program on zeros: invalid_argument: E0102: RuntimeProgramInputMismatch"},
		"no weights": {`module @m { func.func public @main(%x: tensor<@B@x16xf32>) -> tensor<@B@x1xf32> {
			%s = stablehlo.slice %x [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
			return %s : tensor<@B@x1xf32> } }`, "invalid_argument: "},
		"syntax error":  {"module @m { func.func public @main(", "compile bucket 8: "},
		"empty program": {"", "compile bucket 8: "},
	} {
		t.Run(name, func(t *testing.T) {
			o := dotOptions(t, backend)
			o.Program = pjrttest.Batch(c.text)
			e := open(t, o)
			err := e.Compile(context.Background(), 8)
			if !errors.Is(err, executor.ErrPermanent) {
				t.Errorf("got %v, want an error that wraps ErrPermanent", err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			b := &executor.Batch{Bucket: 8, Rows: 8, Arrays: [][]byte{make([]byte, 8*64)}, Scores: make([]byte, 32)}
			if err := e.Launch(b, func(error) { t.Error("done was called") }); !errors.Is(err, pjrt.ErrNotCompiled) {
				t.Errorf("launch: got %v, want ErrNotCompiled", err)
			}
		})
	}
}

func TestFlatResultOfOneColumnIsAccepted(t *testing.T) { both(t, checkFlatResultOfOneColumnIsAccepted) }

func checkFlatResultOfOneColumnIsAccepted(t *testing.T, backend string) {
	o := dotOptions(t, backend)
	o.Program = pjrttest.Batch(`module @m { func.func public @main(%w: tensor<4x1xf32>, %x: tensor<@B@x16xf32>, %b: tensor<1xf32>) -> tensor<@B@xf32> {
	%s = stablehlo.slice %x [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
	%r = stablehlo.reshape %s : (tensor<@B@x1xf32>) -> tensor<@B@xf32>
	return %r : tensor<@B@xf32> } }`)
	open(t, o, 1, 4)
}

func TestI4LateCompilesAreCounted(t *testing.T) { both(t, checkLateCompilesAreCounted) }

func checkLateCompilesAreCounted(t *testing.T, backend string) {
	e := open(t, dotOptions(t, backend), 2)
	b := &executor.Batch{Bucket: 2, Rows: 1, Arrays: [][]byte{make([]byte, 2*64)}, Scores: make([]byte, 8)}
	score(t, e, b)
	for range 2 { // the second is not a compile
		if err := e.Compile(context.Background(), 4); err != nil {
			t.Fatal(err)
		}
	}
	if total, late := e.Compiles(); total != 2 || late != 1 {
		t.Errorf("got %d compiles, %d late; want 2, 1", total, late)
	}
}

func TestLaunchRefusesBatchesThatDoNotFit(t *testing.T) {
	both(t, checkLaunchRefusesBatchesThatDoNotFit)
}

func checkLaunchRefusesBatchesThatDoNotFit(t *testing.T, backend string) {
	e := open(t, dotOptions(t, backend), 4)
	for name, b := range map[string]executor.Batch{
		"no rows":          {Bucket: 4, Rows: 0, Arrays: [][]byte{make([]byte, 4*64)}, Scores: make([]byte, 16)},
		"too many rows":    {Bucket: 4, Rows: 5, Arrays: [][]byte{make([]byte, 4*64)}, Scores: make([]byte, 16)},
		"short array":      {Bucket: 4, Rows: 4, Arrays: [][]byte{make([]byte, 4*64-1)}, Scores: make([]byte, 16)},
		"missing array":    {Bucket: 4, Rows: 4, Scores: make([]byte, 16)},
		"short scores":     {Bucket: 4, Rows: 4, Arrays: [][]byte{make([]byte, 4*64)}, Scores: make([]byte, 12)},
		"unknown bucket":   {Bucket: 3, Rows: 3, Arrays: [][]byte{make([]byte, 3*64)}, Scores: make([]byte, 12)},
		"negative numbers": {Bucket: -1, Rows: -1},
	} {
		if err := e.Launch(&b, func(error) { t.Errorf("%s: done was called", name) }); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestClosedExecutorRefusesWork(t *testing.T) { both(t, checkClosedExecutorRefusesWork) }

func checkClosedExecutorRefusesWork(t *testing.T, backend string) {
	e := open(t, dotOptions(t, backend), 4)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Compile(context.Background(), 8); !errors.Is(err, pjrt.ErrClosed) {
		t.Errorf("compile: got %v, want ErrClosed", err)
	}
	b := &executor.Batch{Bucket: 4, Rows: 4, Arrays: [][]byte{make([]byte, 4*64)}, Scores: make([]byte, 16)}
	if err := e.Launch(b, func(error) {}); !errors.Is(err, pjrt.ErrClosed) {
		t.Errorf("launch: got %v, want ErrClosed", err)
	}
}

func TestOptionsReportEveryViolation(t *testing.T) {
	_, err := pjrt.New(pjrt.Options{
		Platform: "gpu", ScoreBytes: 3, Depth: -1, HostMemory: 9, CacheBytes: -1,
		Arrays: []pjrt.Array{{dtype.Float32, 63}, {dtype.Float32, 64}},
		Inputs: []pjrt.Input{{Packed: 0}, {Packed: 7}, {Weight: &pjrt.Weight{Name: "w", DType: dtype.Float32, Shape: []int{2, 3}, Data: make([]byte, 23)}}},
	})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		`got "gpu", want cpu, cuda or tpu`, "host memory: got 9", "cache bytes: got -1", "program: got none", "got 3, want a positive multiple of 4", "no negative number",
		"got stride 63 of float32", "got packed array 7, want below 2", "array 1: is 0 inputs", `weight "w": got 23 bytes, want 24 for float32 [2 3]`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestMain(m *testing.M) {
	// A plugin that hangs must end the test with a trace rather than CI with a timeout.
	timer := time.AfterFunc(5*time.Minute, func() { panic("tests of the plugin took more than 5 minutes") })
	code := m.Run()
	timer.Stop()
	os.Exit(code)
}
