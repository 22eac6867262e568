package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// deaf is a connection that can be made to read nothing any more.
type deaf struct {
	net.Conn
	shut chan struct{} // closed: reads wait for the end
	end  chan struct{}
	once sync.Once
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	select {
	case <-d.shut: // also what this read has got, which began before
		<-d.end
		return 0, io.EOF
	default:
		return n, err
	}
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.end) })
	return d.Conn.Close()
}

// Replies pile up at the server until flow control holds them; then the clients go away.
func TestConnectionsClosedWithoutReadingLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds; run without -short")
	}
	const connections, rows = 200, 65536
	seed, b := seedOf(t), testModel(t)
	s := serveAimed(t, options{model: b.Dir, flags: []string{
		"--executor=sim", "--sim-verify=full", "--frontends=2", "--sim-call=100us", "--sim-row=0s",
		"--max-request-rows=65536", "--frontend-pending-rows=65536", "--server-pending-rows=131072",
	}})
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	warm := s.lanes(2, 1)
	s.wantWholeCapacity(e, warm, rows)
	for _, l := range flat(warm) {
		l.conn.Close()
	}
	start, err := s.traces()
	if err != nil {
		t.Fatal(err)
	}
	heaps := s.heaps()
	rng := random(seed, "deaf")
	// The client hears of no window either, so all that it sends over a connection must fit in the first one: compressed.
	message := func(rows int) []byte {
		text, err := proto.Marshal(e.predictRequest(e.tensors(slices.Repeat(e.pick(rng, 1), rows), packedInt32)))
		if err != nil {
			t.Fatal(err)
		}
		return zip(t, text)
	}
	small, large := message(100), message(20_000)
	if window := 65535; 2*len(large) > window || 20*len(small) > window {
		t.Fatalf("got requests of %d and %d bytes, want them within a window", len(small), len(large))
	}

	var calls sync.WaitGroup
	var lanes []*lane
	var conns []*deaf
	before := s.scrape()
	want := 0
	for n := range connections {
		var conn *deaf
		l := s.dial(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return nil, err
			}
			conn = &deaf{Conn: c, shut: make(chan struct{}), end: make(chan struct{})}
			return conn, nil
		}))
		l.connect(t)
		close(conn.shut)
		lanes, conns = append(lanes, l), append(conns, conn)
		// Every tenth has replies that are larger than the window, twenty calls the others.
		requests := slices.Repeat([]bool{false}, 20)
		if n%10 == 0 {
			requests = []bool{true, true}
		}
		for _, big := range requests {
			want++
			calls.Go(func() {
				request := small
				if big {
					request = large
				}
				if _, err := l.raw(context.Background(), predictMethod, request, grpc.UseCompressor("gzip")); err == nil {
					t.Error("got a reply over a connection that nobody reads, want none")
				}
			})
		}
		if n%10 == 9 { // more at once would be refused
			ok := 0.0
			s.until(limit, "the calls to be scored", func() bool { ok = s.scrape().ok() - before.ok(); return ok >= float64(want) },
				func() string { return fmt.Sprintf("%v of %d", ok, want) })
		}
	}
	for n, c := range conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok && n%2 == 0 {
			_ = tcp.SetLinger(0) // half of them end with a reset
		}
		c.Close()
	}
	for _, l := range lanes {
		l.conn.Close()
	}
	calls.Wait()
	by := s.lanes(2, 1)
	s.wantWholeCapacity(e, by, rows)
	s.wantBaseline(flat(by), start)
	s.wantHeaps(heaps)
}
