package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
)

// Options are how a client talks to its target.
type Options struct {
	Connections int           // 0: 1
	Timeout     time.Duration // of one attempt; 0: none
	Retries     int           // more attempts after refusals that carry RetryInfo
	MaxReply    int           // bytes of the largest reply; 0: 64 MiB
}

// Client holds connections to one target.
type Client struct {
	target  string
	options Options
	conns   []*grpc.ClientConn
	turn    atomic.Uint64
}

// Dial prepares connections to target ("host:port"). They are made when they are first used.
func Dial(target string, o Options) (*Client, error) {
	if o.MaxReply == 0 {
		o.MaxReply = 64 << 20
	}
	c := &Client{target: target, options: o}
	for range max(1, o.Connections) {
		conn, err := grpc.NewClient(target,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxReply)),
		)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dial %s: %w", target, err), c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Close ends the connections and the calls on them.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

func (c *Client) conn() *grpc.ClientConn {
	return c.conns[c.turn.Add(1)%uint64(len(c.conns))]
}

// Tensor is one input. Data is row-major and little-endian, exactly as long as Shape and DType say.
type Tensor struct {
	Name  string
	DType dtype.DType
	Shape []int64
	Data  []byte
}

// Output is one output: float32 [B] or [B, k].
type Output struct {
	Name   string
	Shape  []int64
	Values []float32
}

// Model names what is to score; an empty Version means the one being served.
type Model struct {
	Name, Version string
}

// Score sends the tensors as one request and returns the outputs by name.
func (c *Client) Score(ctx context.Context, m Model, inputs []Tensor) (map[string]Output, error) {
	request := &rankdpb.PredictRequest{ModelName: m.Name, ModelVersion: m.Version, Inputs: map[string]*rankdpb.HostBufferProto{}}
	for _, t := range inputs {
		request.Inputs[t.Name] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType(t.DType), Shape: t.Shape, Data: t.Data}
	}
	for attempt := 0; ; attempt++ {
		reply, err := c.once(ctx, request)
		if err == nil {
			return outputs(reply)
		}
		wait := retryDelay(err)
		if wait == 0 || attempt >= c.options.Retries {
			return nil, fmt.Errorf("score on %s: %w", c.target, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("score on %s: %w", c.target, errors.Join(ctx.Err(), err))
		}
	}
}

func (c *Client) once(ctx context.Context, request *rankdpb.PredictRequest) (*rankdpb.PredictResponse, error) {
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	return rankdpb.NewPredictionServiceClient(c.conn()).Predict(ctx, request)
}

func outputs(reply *rankdpb.PredictResponse) (map[string]Output, error) {
	out := make(map[string]Output, len(reply.GetOutputs()))
	for name, o := range reply.GetOutputs() {
		want := int64(1)
		for _, d := range o.GetShape() {
			want *= d
		}
		data := o.GetData()
		if o.GetDtype() != rankdpb.DType_DTYPE_FLOAT32 || int64(len(data)) != 4*want {
			return nil, fmt.Errorf("read output %q: got %s %v with %d bytes, want float32 with %d", name, o.GetDtype(), o.GetShape(), len(data), 4*want)
		}
		values := make([]float32, want)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		out[name] = Output{Name: name, Shape: o.GetShape(), Values: values}
	}
	return out, nil
}

// Metadata asks the server for the inputs and outputs of a model.
func (c *Client) Metadata(ctx context.Context, m Model) (*kservepb.ModelMetadataResponse, error) {
	request := &kservepb.ModelMetadataRequest{Name: m.Name, Version: m.Version}
	reply, err := kservepb.NewGRPCInferenceServiceClient(c.conn()).ModelMetadata(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("ask %s for model %q: %w", c.target, m.Name, err)
	}
	return reply, nil
}

// Reason is the reason in a refusal's ErrorInfo, or "" if err carries none.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// retryDelay is how long a refusal asks to wait before the next attempt; 0 if it does not ask for one.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
