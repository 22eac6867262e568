package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"rankd/frontend/wire/rankdpb"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// busy refuses its first calls with RetryInfo, then answers with an output of the given bytes.
type busy struct {
	rankdpb.UnimplementedPredictionServiceServer
	refusals int32
	calls    atomic.Int32
	data     []byte
}

func (b *busy) Predict(context.Context, *rankdpb.PredictRequest) (*rankdpb.PredictResponse, error) {
	if b.calls.Add(1) <= b.refusals {
		st, err := status.New(codes.ResourceExhausted, "full").WithDetails(
			&errdetails.ErrorInfo{Reason: "frontend_pending_full", Domain: "rankd"},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &rankdpb.PredictResponse{Outputs: map[string]*rankdpb.HostBufferProto{
		"score": {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{2}, Data: b.data},
	}}, nil
}

func serve(t *testing.T, b *busy, o Options) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	rankdpb.RegisterPredictionServiceServer(s, b)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c, err := Dial(l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Stop(); <-done })
	return c
}

func TestI2RefusalIsRetriedAsOftenAsAllowed(t *testing.T) {
	b := &busy{refusals: 3, data: make([]byte, 8)}
	c := serve(t, b, Options{Connections: 2, Retries: 3})
	if _, err := c.Score(context.Background(), Model{Name: "m"}, nil); err != nil || b.calls.Load() != 4 {
		t.Errorf("got %v after %d calls, want scores after 4", err, b.calls.Load())
	}
	b = &busy{refusals: 3}
	c = serve(t, b, Options{Retries: 2})
	_, err := c.Score(context.Background(), Model{Name: "m"}, nil)
	if status.Code(err) != codes.ResourceExhausted || Reason(err) != "frontend_pending_full" || b.calls.Load() != 3 {
		t.Errorf("got %v (reason %q) after %d calls, want the refusal after 3", err, Reason(err), b.calls.Load())
	}
}

func TestI1OutputOfTheWrongSizeIsAnError(t *testing.T) {
	c := serve(t, &busy{data: make([]byte, 7)}, Options{})
	if out, err := c.Score(context.Background(), Model{Name: "m"}, nil); err == nil {
		t.Errorf("got %v, want an error: 7 bytes are not 2 values", out)
	}
}

// cutter closes the first connections as soon as a request comes in on them, as the death of a frontend does, and serves
// the others.
type cutter struct {
	net.Listener
	cuts  int32
	taken atomic.Int32
}

func (l *cutter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.taken.Add(1) > l.cuts {
			return conn, err
		}
		conn.Close()
	}
}

func TestI2BrokenConnectionIsRetriedOnANewOne(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &cutter{Listener: inner, cuts: 4}
	s := grpc.NewServer()
	b := &busy{data: make([]byte, 8)}
	rankdpb.RegisterPredictionServiceServer(s, b)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	for _, c := range []struct {
		retries int
		fails   bool
	}{{0, true}, {5, false}} {
		cl, err := Dial(inner.Addr().String(), Options{Connections: 2, Retries: c.retries})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err = cl.Score(context.Background(), Model{Name: "m"}, nil); (err != nil) != c.fails || errors.Is(err, ErrNoServer) {
			t.Errorf("%d retries: got %v, want a failure: %v, and never ErrNoServer: there was a connection", c.retries, err, c.fails)
		}
	}
}

func TestI2ServerThatDiesAndComesBackIsFoundAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	b := &busy{data: make([]byte, 8)}
	start := func(l net.Listener) (stop func()) {
		s := grpc.NewServer()
		rankdpb.RegisterPredictionServiceServer(s, b)
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		return func() { s.Stop(); <-done }
	}
	stop := start(l)
	c, err := Dial(address, Options{Connections: 2, Retries: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.Score(context.Background(), Model{Name: "m"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	scored := make(chan error, 1)
	go func() {
		_, err := c.Score(context.Background(), Model{Name: "m"}, nil)
		scored <- err
	}()
	select {
	case err := <-scored:
		t.Fatalf("got %v while there was no server", err)
	case <-time.After(200 * time.Millisecond): // some attempts have failed by now
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer start(l)()
	if err := <-scored; err != nil {
		t.Errorf("got %v, want scores from the server that came back", err)
	}
}

func TestI3TargetWithoutServerIsNamedAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c, err := Dial(address, Options{Retries: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Score(ctx, Model{Name: "m"}, nil); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v, want ErrNoServer at %s", err, address)
	}
}

func TestTargetNeedsAPort(t *testing.T) {
	for _, target := range []string{"", "foo", "foo:", "::1"} {
		if c, err := Dial(target, Options{}); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: got %v, %v, want an error that asks for host:port", target, c, err)
		}
	}
}
