package client

import (
	"context"
	"net"
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
