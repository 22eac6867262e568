package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
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
	Retries     int           // more attempts after a refusal that carries RetryInfo or a connection that broke
	MaxReply    int           // bytes of the largest reply; 0: 64 MiB
}

// ErrNoServer says that no connection to the target was ever made.
var ErrNoServer = errors.New("no server")

// Client holds connections to one target.
type Client struct {
	target  string
	options Options
	conns   []*grpc.ClientConn
	turn    atomic.Uint64
	reached atomic.Bool           // some connection was made
	refused atomic.Pointer[error] // why the last connection that was tried was not
}

// Dial prepares connections to target ("host:port"). They are made when they are first used.
func Dial(target string, o Options) (*Client, error) {
	if _, port, err := net.SplitHostPort(target); err != nil || port == "" {
		return nil, fmt.Errorf("dial: got target %q, want host:port", target)
	}
	if o.MaxReply == 0 {
		o.MaxReply = 64 << 20
	}
	c := &Client{target: target, options: o}
	for range max(1, o.Connections) {
		conn, err := grpc.NewClient(target,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.MaxReply)),
			grpc.WithContextDialer(c.connect),
			grpc.WithConnectParams(reconnect),
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
	var reply *rankdpb.PredictResponse
	err := c.attempts(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		reply, err = rankdpb.NewPredictionServiceClient(conn).Predict(ctx, request)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("score on %s: %w", c.target, err)
	}
	return outputs(reply)
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
	var reply *kservepb.ModelMetadataResponse
	err := c.attempts(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		reply, err = kservepb.NewGRPCInferenceServiceClient(conn).ModelMetadata(ctx, request)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask %s for model %q: %w", c.target, m.Name, err)
	}
	return reply, nil
}

// Reason is the reason in a refusal's ErrorInfo, or "" if err carries none.
func Reason(err error) string { return info(err).GetReason() }

// Detail is what a refusal's ErrorInfo says about key, such as "row"; "" if it says nothing.
func Detail(err error, key string) string { return info(err).GetMetadata()[key] }

func info(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}
