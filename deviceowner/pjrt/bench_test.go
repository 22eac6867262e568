package pjrt_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/dtype"
)

// ways are how a batch can reach the device. The binding is the baseline.
var ways = []struct {
	name    string
	backend string
	memory  pjrt.HostMemory
}{
	{"go-xla", pjrt.BackendGoXLA, pjrt.CopyRows},
	{"shim-copy", pjrt.BackendShim, pjrt.CopyRows},
	{"shim-lend-transfer", pjrt.BackendShim, pjrt.LendRowsForTransfer},
	{"shim-lend", pjrt.BackendShim, pjrt.LendRows},
}

// BenchmarkTinyProgram is the cost of a call: the program itself does next to nothing.
func BenchmarkTinyProgram(b *testing.B) {
	for _, w := range ways {
		for _, bucket := range []int{1, 128} {
			b.Run(fmt.Sprintf("%s/rows=%d", w.name, bucket), func(b *testing.B) {
				o := dotOptions(b, w.backend)
				o.HostMemory = w.memory
				launchAlways(b, open(b, o, bucket), bucket, 64, 1)
			})
		}
	}
}

// wide multiplies rows as wide as those of a DLRM by one vector: it reads every byte of them and does little else.
const wide = `module @wide { func.func public @main(%w: tensor<3472x1xf32>, %x: tensor<@B@x3472xf32>) -> tensor<@B@x1xf32> {
  %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<@B@x3472xf32>, tensor<3472x1xf32>) -> tensor<@B@x1xf32>
  return %r : tensor<@B@x1xf32>
} }`

// BenchmarkWideRows is what it costs to bring 1.8 MB of rows to the device, with one batch in flight and with two.
func BenchmarkWideRows(b *testing.B) {
	const bucket, stride = 128, 4 * 3472
	for _, w := range ways {
		for _, depth := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/depth=%d", w.name, depth), func(b *testing.B) {
				o := pjrt.WithBackend(pjrt.Options{
					PluginPath: pjrttest.CPU(b), Platform: "cpu", Program: pjrttest.Batch(wide), HostMemory: w.memory, Depth: depth,
					Inputs: []pjrt.Input{
						{Weight: &pjrt.Weight{Name: "w", DType: dtype.Float32, Shape: []int{3472, 1}, Data: make([]byte, stride)}},
						{Packed: 0},
					},
					Arrays: []pjrt.Array{{DType: dtype.Float32, Stride: stride}}, ScoreBytes: 4,
				}, w.backend)
				launchAlways(b, open(b, o, bucket), bucket, stride, depth)
			})
		}
	}
}

// launchAlways keeps depth launches in flight, each over mapped memory of its own, as slabs are.
func launchAlways(b *testing.B, e *pjrt.Executor, bucket, stride, depth int) {
	done := make(chan int, depth)
	batches, ends := make([]executor.Batch, depth), make([]func(error), depth)
	for i := range batches {
		rows, err := unix.Mmap(-1, 0, bucket*stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Munmap(rows)
		batches[i] = executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{rows}, Scores: make([]byte, bucket*4)}
		ends[i] = func(err error) {
			if err != nil {
				b.Error(err)
			}
			done <- i
		}
	}
	launch := func(i int) {
		if err := e.Launch(&batches[i], ends[i]); err != nil {
			b.Fatal(err)
		}
	}
	for i := range batches {
		launch(i)
	}
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		launch(<-done)
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
	for range batches {
		<-done
	}
}

// processorTime is what this process has used, those of the plugin's threads included.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}
