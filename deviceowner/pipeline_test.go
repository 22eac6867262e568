package deviceowner

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rankd/deviceowner/sim"
	"rankd/internal/dtype"
	"rankd/model"
)

// bubbleClock is the time of testing/synctest, where sleeping is exact.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() time.Duration       { return time.Since(c.start) }
func (c bubbleClock) Wait(until time.Duration) { time.Sleep(until - c.Now()) } // sleep: fake time
func (c bubbleClock) Close() error             { return nil }

// On a simulated accelerator whose rows need 80 µs to reach it and whose batches take 200 µs, the loop hides every transfer
// behind the batch before it with two places on the device, and none with one.
func TestTransferIsHiddenBehindTheBatchBeforeAtDepthTwo(t *testing.T) {
	const (
		transfer, execution = 80 * time.Microsecond, 200 * time.Microsecond
		batches             = 20
	)
	for _, depth := range []int{1, 2} {
		t.Run(fmt.Sprintf("depth=%d", depth), func(t *testing.T) {
			var spans []sim.Span
			synctest.Test(t, func(t *testing.T) {
				spans = runSaturated(t, depth, batches, transfer/testCapacity, execution)
			})
			if len(spans) != batches {
				t.Fatalf("got %d launches, want %d", len(spans), batches)
			}
			for i, next := range spans[1:] {
				this := spans[i]
				if next.Arrived-next.Sent != transfer || next.Ended-next.Began != execution {
					t.Fatalf("launch %d took %v on the link and %v on the device, want %v and %v", next.Number, next.Arrived-next.Sent, next.Ended-next.Began, transfer, execution)
				}
				switch hidden := next.Arrived <= this.Ended; {
				case depth == 1 && next.Sent < this.Ended:
					t.Errorf("launch %d was sent at %v, before launch %d ended at %v", next.Number, next.Sent, this.Number, this.Ended)
				case depth == 2 && !(hidden && next.Began == this.Ended):
					t.Errorf("launch %d arrived at %v and began at %v, want it to begin when launch %d ends, at %v", next.Number, next.Arrived, next.Began, this.Number, this.Ended)
				}
			}
			took := spans[batches-1].Ended - spans[0].Sent
			hidden, bare := transfer+batches*execution, batches*(transfer+execution)
			if depth == 2 && took != hidden || depth == 1 && took < bare {
				t.Errorf("got %v for %d batches, want %v with transfers hidden and at least %v without", took, batches, hidden, bare)
			}
		})
	}
}

// runSaturated keeps a loop over a simulated accelerator supplied with full slabs until it has run some batches, in a bubble
// of fake time, and returns where they lay.
func runSaturated(t *testing.T, depth, batches int, transferRow, execution time.Duration) (spans []sim.Span) {
	r := newRig(t, setup{batching: "continuous", depth: depth, realTime: true})
	layout, err := sim.LayoutOf(&model.Manifest{
		Packed:  []model.PackedArray{{DType: dtype.Float32, Stride: testStride}},
		Tables:  []model.Table{{Name: "a", Dim: testStride / 4, Slot: model.Slot{}}},
		Outputs: []model.Output{{Name: "score"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := sim.Default(layout)
	o.Call, o.Row, o.Transfer, o.Depth = execution, 0, transferRow, depth
	o.Clock, o.Trace = bubbleClock{time.Now()}, func(s sim.Span) { spans = append(spans, s) }
	device, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.loop.buckets {
		if err := device.Compile(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	r.loop.exec = device

	rows := &endless{}
	for rows.back < batches*testCapacity {
		for rows.sent < batches*testCapacity {
			v, ok := r.fronts[0].Reserve(4, false, rows, 0)
			if !ok {
				break
			}
			writeRows(&v, 0)
			r.fronts[0].Commit(&v)
			rows.sent += v.N
		}
		r.settle()
		if r.fronts[0].Poll() == 0 {
			time.Sleep(time.Microsecond) // sleep: fake time; the device goes on
		}
	}
	if err := device.Close(); err != nil {
		t.Fatal(err)
	}
	return spans
}
