package pjrt_test

import (
	"fmt"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
)

// BenchmarkTinyProgram is the cost of a call: the program itself does next to nothing. The binding is the baseline.
func BenchmarkTinyProgram(b *testing.B) {
	for _, c := range []struct {
		name    string
		backend string
		memory  pjrt.HostMemory
	}{
		{"go-xla", pjrt.BackendGoXLA, pjrt.CopyRows},
		{"shim-copy", pjrt.BackendShim, pjrt.CopyRows},
		{"shim-lend-transfer", pjrt.BackendShim, pjrt.LendRowsForTransfer},
		{"shim-lend", pjrt.BackendShim, pjrt.LendRows},
	} {
		for _, bucket := range []int{1, 1024} {
			b.Run(fmt.Sprintf("%s/rows=%d", c.name, bucket), func(b *testing.B) {
				o := dotOptions(b, c.backend)
				o.HostMemory = c.memory
				e := open(b, o, bucket)
				batch := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*64)}, Scores: make([]byte, bucket*4)}
				done := make(chan error, 1)
				finish := func(err error) { done <- err }
				b.ReportAllocs()
				for b.Loop() {
					if err := e.Launch(batch, finish); err != nil {
						b.Fatal(err)
					}
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
