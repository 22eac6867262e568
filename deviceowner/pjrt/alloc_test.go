package pjrt

import (
	"os"
	"path/filepath"
	"testing"

	"rankd/internal/dtype"
)

// sumProgram adds the first two columns.
const sumProgram = `module @m { func.func public @main(%x: tensor<8x16xf32>) -> tensor<8x1xf32> {
	%a = stablehlo.slice %x [0:8, 0:1] : (tensor<8x16xf32>) -> tensor<8x1xf32>
	%b = stablehlo.slice %x [0:8, 1:2] : (tensor<8x16xf32>) -> tensor<8x1xf32>
	%r = stablehlo.add %a, %b : tensor<8x1xf32>
	return %r : tensor<8x1xf32> } }`

// testDevice opens the CPU plugin through the shim. pjrttest cannot be imported here: it imports this package.
func testDevice(t testing.TB) *shimDevice {
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
	o := Options{Inputs: []Input{{Packed: 0}}, Arrays: []Array{{dtype.Float32, 64}}, ScoreBytes: 4}
	d, err := openShim(path, &o)
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

func TestRunAllocatesNothing(t *testing.T) {
	d := testDevice(t)
	r, err := d.compile(8, []byte(sumProgram))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	arrays, scores := [][]byte{make([]byte, 8*64)}, make([]byte, 32)
	n := testing.AllocsPerRun(200, func() {
		if err := r.run(arrays, scores); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations a batch, want 0", n)
	}
}

func TestImagesThatAreNoneAreErrors(t *testing.T) {
	d := testDevice(t)
	r, err := d.compile(8, []byte(sumProgram))
	if err != nil {
		t.Fatal(err)
	}
	image, err := d.serialize(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
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
	r, err = d.load(8, image, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
