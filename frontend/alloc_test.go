package frontend

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"rankd/internal/stats"
)

// tally is a Responder that keeps nothing.
type tally struct {
	done chan *Error
}

func (t *tally) Reply(_ []byte, err *Error) { t.done <- err }

// allocations measures the allocations of a request, from ScoreUnary to Reply, in the core, the ring and the tables. The
// device owner runs in this process too; its one allocation a launch is taken off.
func (r *real) allocations(t testing.TB, api API, request []byte) float64 {
	t.Helper()
	w := &tally{done: make(chan *Error, 1)}
	deadline := time.Now().Add(time.Minute)
	once := func() {
		r.core.ScoreUnary(api, request, deadline, w)
		if err := <-w.done; err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		once()
	}
	const n = 500
	var before, after runtime.MemStats
	batches := r.owner.Load(stats.Batches)
	runtime.ReadMemStats(&before)
	for range n {
		once()
	}
	runtime.ReadMemStats(&after)
	batches = r.owner.Load(stats.Batches) - batches
	return (float64(after.Mallocs-before.Mallocs) - float64(batches)) / n
}

func TestRequestAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newReal(t, "continuous", 4, 256)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, rows := range []int{1, 16, 100} {
		for _, shared := range [][]bool{nil, {true, false, true, false, true}} {
			p, _ := r.requestSharing(rng, rows, shared)
			predict, err := proto.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			infer, err := proto.Marshal(toInfer(p))
			if err != nil {
				t.Fatal(err)
			}
			for api, request := range map[API][]byte{APIPredict: predict, APIModelInfer: infer} {
				// A garbage collection empties the pools, so a few allocations in 500 requests are allowed.
				if got := r.allocations(t, api, request); got > 0.1 {
					t.Errorf("api %d, %d rows, of all rows %v: got %.2f allocations a request, want 0", api, rows, shared, got)
				}
			}
		}
	}
}

func BenchmarkScoreUnary(b *testing.B) {
	r := newReal(b, "continuous", 4, 256)
	p, _ := r.request(rand.New(rand.NewPCG(1, 1)), 1)
	request, err := proto.Marshal(p)
	if err != nil {
		b.Fatal(err)
	}
	const open = 64 // requests at once
	w := &tally{done: make(chan *Error, open)}
	b.ReportAllocs()
	sent := 0
	for b.Loop() {
		if sent++; sent > open {
			if err := <-w.done; err != nil {
				b.Fatal(err)
			}
		}
		r.core.ScoreUnary(APIPredict, request, time.Time{}, w)
	}
	for range min(sent, open) {
		<-w.done
	}
}
