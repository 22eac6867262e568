package overload

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"rankd/bench/gauges"
	"rankd/bench/load"
	"rankd/internal/testutil"
	"rankd/internal/testutil/rawcodec"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// serve answers every call with the same bytes and counts them.
func serve(t *testing.T, calls *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawcodec.Codec{}), grpc.MaxConcurrentStreams(50), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var in []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		calls.Add(1)
		out := make([]byte, 100)
		return stream.SendMsg(&out)
	}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func (r *Readers) now() ReaderCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

func TestReadersTakeRepliesSlowlyOrNever(t *testing.T) {
	for _, takes := range []float64{0, 500} {
		t.Run(fmt.Sprintf("%v a second", takes), func(t *testing.T) {
			var calls atomic.Int64
			r, err := StartReaders(context.Background(), ReaderOptions{
				Target: serve(t, &calls), Path: "/a.B/C", Messages: [][]byte{make([]byte, 1000), make([]byte, 20_000)}, Connections: 2, Open: 80, Takes: takes,
			})
			if err != nil {
				t.Fatal(err)
			}
			// The server allows 50 calls a connection, and takes no more while none of their replies is taken.
			want := int64(100)
			if takes > 0 {
				want = 250
			}
			until(t, "calls", func() bool { return calls.Load() >= want && (takes == 0 || r.now().Taken > 100) })
			got := r.Stop()
			if got.Lost != 0 || got.Refused != 0 || got.Begun != got.Taken+got.Open {
				t.Errorf("got %+v, want every call taken or open", got)
			}
			if takes == 0 && (got.Taken != 0 || got.Begun != 100 || calls.Load() != 100) {
				t.Errorf("got %+v and %d calls, want 100 calls and no reply taken", got, calls.Load())
			}
		})
	}
}

func TestReadersWhoseServerGoesAreCounted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := StartReaders(context.Background(), ReaderOptions{Target: l.Addr().String(), Path: "/a.B/C", Messages: [][]byte{{1}}, Connections: 1, Open: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	until(t, "the connection's end", func() bool { return r.now().Lost == 1 })
	r.Stop()
	if _, err := StartReaders(context.Background(), ReaderOptions{Target: "127.0.0.1:1", Connections: 1, Messages: [][]byte{{1}}}); err == nil {
		t.Error("nobody listens: got no error")
	}
}

func TestI2ScenarioNamesEverything(t *testing.T) {
	f := File{Scenarios: []Scenario{{
		Name: "device", What: "too much",
		Result:  &load.Result{Timed: 10, OK: 4, Failed: 5, NoReply: 1, Errors: []load.Error{{Code: "ResourceExhausted", Reason: "queue_full", Count: 3}, {Code: "Unavailable", Count: 2}}},
		After:   &load.Result{Timed: 4, OK: 3},
		Samples: []gauges.Sample{{PendingRows: 7, Restarts: 1}, {PendingRows: 3}},
		Readers: &ReaderCounts{Begun: 5, Taken: 2, Open: 3},
	}}}
	text := f.Summary()
	for _, want := range []string{"3 queue_full, 2 Unavailable; without a reply: 1", "at most 7 rows", "1 PROCESSES", "5 calls, 2 replies taken", "3 of 4 answered", ReturnWait} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	if f.Scenarios[0].Recovered() {
		t.Error("a lost request afterwards: got recovered")
	}
}

func TestPlansCauseWhatTheyAreNamedFor(t *testing.T) {
	for _, p := range plans() {
		if p.readers == nil && p.rate*float64(p.rows) < 2*slowRows {
			t.Errorf("%s: %v requests of %d rows are no overload of %d rows a second", p.name, p.rate, p.rows, slowRows)
		}
	}
}
