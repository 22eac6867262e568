package pjrt_test

import (
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
)

// Two launches are always in flight, each over mapped memory with values of its own that is overwritten as soon as its done was
// called: every score must be that of the values, and none may come from what was written over them.
func TestI1HostMemoryIsFreeOnceDoneIsCalled(t *testing.T) {
	for _, c := range []struct {
		name    string
		backend string
		memory  pjrt.HostMemory
	}{
		{"shim copies", pjrt.BackendShim, pjrt.CopyRows},
		{"shim lends for the transfer", pjrt.BackendShim, pjrt.LendRowsForTransfer},
		{"shim lends", pjrt.BackendShim, pjrt.LendRows},
		{"go-xla", pjrt.BackendGoXLA, pjrt.CopyRows},
	} {
		for _, size := range []struct{ bucket, rounds int }{{64, 2000}, {8192, 60}} { // run inline and on other threads
			t.Run(fmt.Sprintf("%s, %d rows", c.name, size.bucket), func(t *testing.T) {
				if falseRaces && c.backend == pjrt.BackendGoXLA {
					t.Skip("run the race detector with -tags race_mu: the binding's pool is not locked otherwise")
				}
				o := dotOptions(t, c.backend)
				o.HostMemory = c.memory
				overwriteWhenDone(t, o, size.bucket, size.rounds)
			})
		}
	}
}

func overwriteWhenDone(t *testing.T, o pjrt.Options, bucket, rounds int) {
	const slots = 2
	o.Depth = slots
	e := open(t, o, bucket)
	mem, err := unix.Mmap(-1, 0, slots*bucket*64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	var wg sync.WaitGroup
	for s := range slots {
		wg.Go(func() {
			b := &executor.Batch{
				Bucket: bucket, Rows: bucket, Arrays: [][]byte{mem[s*bucket*64 : (s+1)*bucket*64]},
				Scores: make([]byte, bucket*4),
			}
			done := make(chan error, 1)
			for n := range rounds {
				base := float32(10000*s + n)
				for r := range bucket {
					copy(b.Arrays[0][r*64:], floats(base+float32(r), 0, 0, 0))
				}
				if err := e.Launch(b, func(err error) {
					for i := range b.Arrays[0] {
						b.Arrays[0][i] = 0xff // NaN in every column
					}
					done <- err
				}); err != nil {
					t.Error(err)
					return
				}
				if err := <-done; err != nil {
					t.Error(err)
					return
				}
				for r := range bucket {
					if got, want := float(b.Scores, r), base+float32(r)+0.5; got != want {
						t.Errorf("slot %d round %d row %d: got %v, want %v", s, n, r, got, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// A plugin that cannot prepare host memory says so; the rows travel as before.
func TestHostMemoryIsMappedWhereThePluginCan(t *testing.T) {
	o := dotOptions(t, pjrt.BackendShim)
	e := open(t, o, 8)
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	mapped, err := e.MapHost(mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the CPU plugin maps host memory: %v", mapped)
	b := &executor.Batch{Bucket: 8, Rows: 1, Arrays: [][]byte{mem[:8*64]}, Scores: make([]byte, 32)}
	copy(b.Arrays[0], floats(1, 2, 3, 4))
	score(t, e, b)
	if got := float(b.Scores, 0); got != 4321.5 {
		t.Errorf("got %v, want 4321.5", got)
	}
}

// Rows that are not aligned as a device would like them are copied rather than misread.
func TestUnalignedRowsAreScored(t *testing.T) {
	const bucket = 16
	for _, memory := range []pjrt.HostMemory{pjrt.CopyRows, pjrt.LendRowsForTransfer, pjrt.LendRows} {
		o := dotOptions(t, pjrt.BackendShim)
		o.HostMemory = memory
		e := open(t, o, bucket)
		for shift := range 5 {
			rows := make([]byte, bucket*64+64)[shift:][:bucket*64]
			for r := range bucket {
				copy(rows[r*64:], floats(float32(r), 1, 2, 3))
			}
			b := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{rows}, Scores: make([]byte, bucket*4)}
			score(t, e, b)
			for r := range bucket {
				if got, want := float(b.Scores, r), float32(r)+3210.5; got != want {
					t.Fatalf("memory %d shift %d row %d: got %v, want %v", memory, shift, r, got, want)
				}
			}
		}
	}
}
