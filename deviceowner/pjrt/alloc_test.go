package pjrt

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/internal/dtype"
)

// sumProgram adds the first two columns.
func sumProgram(bucket int) ([]byte, error) {
	return []byte(strings.ReplaceAll(`module @m { func.func public @main(%x: tensor<@B@x16xf32>) -> tensor<@B@x1xf32> {
	%a = stablehlo.slice %x [0:@B@, 0:1] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
	%b = stablehlo.slice %x [0:@B@, 1:2] : (tensor<@B@x16xf32>) -> tensor<@B@x1xf32>
	%r = stablehlo.add %a, %b : tensor<@B@x1xf32>
	return %r : tensor<@B@x1xf32> } }`, "@B@", strconv.Itoa(bucket))), nil
}

func compileSum(t testing.TB, d *shimDevice, bucket int) *shimProgram {
	t.Helper()
	text, err := sumProgram(bucket)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.compile(bucket, text)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*shimProgram)
}

// sumOptions are those of sumProgram on the CPU plugin. pjrttest cannot be imported here: it imports this package.
func sumOptions(t testing.TB) Options {
	t.Helper()
	path, err := ResolvePlugin("", "cpu")
	if err != nil {
		path, err = ResolvePlugin(filepath.Join("..", "..", ".build", "plugins", "cpu", "pjrt_c_api_cpu_plugin.so"), "cpu")
	}
	if err != nil {
		if os.Getenv("RANKD_REQUIRE_PLUGIN") != "" {
			t.Fatal(err)
		}
		t.Skipf("no CPU plugin: run %s", InstallCommand("cpu"))
	}
	return Options{
		PluginPath: path, Platform: "cpu", Program: sumProgram, Depth: 2,
		Inputs: []Input{{Packed: 0}}, Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4,
	}
}

func testDevice(t testing.TB) *shimDevice {
	t.Helper()
	o := sumOptions(t)
	d, err := openShim(o.PluginPath, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Runs of few rows are over when they have been started, runs of many arrive later.
func TestRunsAllocateNothing(t *testing.T) {
	d := testDevice(t)
	for _, bucket := range []int{8, 4096} {
		p := compileSum(t, d, bucket)
		defer p.close()
		arrays, scores := [][]byte{make([]byte, bucket*64)}, make([]byte, bucket*4)
		later := 0
		for name, run := range map[string]func() error{
			"run": func() error { return p.run(arrays, scores) },
			"start": func() error {
				over, err := p.start(arrays, scores, 1)
				if over || err != nil {
					return err
				}
				later++
				a, ok := d.next()
				if !ok || a.tag != 1 {
					t.Fatalf("got the end of %d, %v, want that of 1", a.tag, ok)
				}
				return a.err
			},
		} {
			if n := testing.AllocsPerRun(200, func() {
				if err := run(); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s of %d rows: got %v allocations, want 0", name, bucket, n)
			}
		}
		if bucket == 4096 && later == 0 {
			t.Error("no run of 4096 rows arrived later, want some that do")
		}
	}
}

func TestLaunchesAllocateNothing(t *testing.T) {
	e, err := New(sumOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []int{8, 4096} {
		if err := e.Compile(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
		b := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*64)}, Scores: make([]byte, bucket*4)}
		done := make(chan error, 1)
		finish := func(err error) { done <- err }
		if n := testing.AllocsPerRun(200, func() {
			if err := e.Launch(b, finish); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%d rows: got %v allocations a launch, want 0", bucket, n)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestImagesThatAreNoneAreErrors(t *testing.T) {
	d := testDevice(t)
	p := compileSum(t, d, 8)
	image, err := d.serialize(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	before := objectsAlive()
	for name, bad := range map[string][]byte{
		"empty": {}, "text": []byte("not an image"), "zeros": make([]byte, 1000), "half": image[:len(image)/2],
	} {
		if _, err := d.load(8, bad, true); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for _, bucket := range []int{4, 16} {
		for _, run := range []bool{true, false} {
			if _, err := d.load(bucket, image, run); err == nil {
				t.Errorf("image of bucket 8 as bucket %d: got no error", bucket)
			}
		}
	}
	if got := objectsAlive(); got["programs"] != before["programs"] || got["buffers"] != before["buffers"] || got["events"] != before["events"] {
		t.Errorf("objects: got %v, want %v", got, before)
	}
	r, err := d.load(8, image, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
