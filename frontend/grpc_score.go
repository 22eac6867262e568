package frontend

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"rankd/frontend/trace"
	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// The scoring methods are unary for clients. For grpc-go they are registered as streams of one message each way, which is
// the same on the wire: the handler of a stream reads the message itself (see receive), and so can give one that is too
// large or does not inflate its proper refusal. The handler of a unary method would not even be called.

func predictDesc() *grpc.ServiceDesc {
	return scoringDesc(rankdpb.PredictionService_ServiceDesc, "Predict", APIPredict)
}

func inferDesc() *grpc.ServiceDesc {
	return scoringDesc(kservepb.GRPCInferenceService_ServiceDesc, "ModelInfer", APIModelInfer)
}

// scoringDesc is desc with the method replaced by the stream that scores.
func scoringDesc(desc grpc.ServiceDesc, method string, api API) *grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, 0, len(desc.Methods))
	for _, m := range desc.Methods {
		if m.MethodName != method {
			methods = append(methods, m)
		}
	}
	desc.Methods = methods
	desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	desc.Streams = append(desc.Streams, grpc.StreamDesc{
		StreamName: method,
		Handler: func(srv any, stream grpc.ServerStream) error {
			return srv.(interface {
				score(api API, stream grpc.ServerStream) error
			}).score(api, stream)
		},
	})
	return &desc
}

// scorer is what the scoring services embed: the core behind a blocking handler.
type scorer struct {
	core   *Core
	pool   mem.BufferPool
	tracer *trace.Tracer // nil: nothing is traced
}

func (s scorer) score(api API, stream grpc.ServerStream) error {
	request, err := s.receive(stream)
	if err != nil {
		if own, ok := errors.AsType[*Error](err); ok {
			s.core.meter.ended(api, own)
			return own.Status().Err()
		}
		return err
	}
	ctx := stream.Context()
	deadline, _ := ctx.Deadline() // the zero Time if there is none
	w := waiters.Get().(*waiter)
	w.pool = s.pool
	parent := s.traced(ctx, w)
	ticket := s.core.ScoreUnary(api, request.ReadOnlyData(), deadline, w)
	select {
	case <-w.done:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ticket.end(errDeadline)
		} else {
			ticket.Cancel()
		}
		<-w.done // soon: the core answers as soon as nobody reads the request
	}
	request.Free()
	body, refused, marks := w.body, w.err, w.marks
	w.body, w.err, w.marks = nil, nil, nil
	waiters.Put(w)
	if refused != nil {
		if marks != nil {
			s.tracer.Record(parent, methodOf(api), marks, refused.Reason)
		}
		return refused.Status().Err()
	}
	err = stream.SendMsg(&rawReply{body: body})
	if marks != nil {
		marks.Replied = time.Now()
		s.tracer.Record(parent, methodOf(api), marks, "")
	}
	return err
}

// traced decides whether the call is traced, and gives it its marks then.
func (s scorer) traced(ctx context.Context, w *waiter) (parent context.Context) {
	if s.tracer == nil {
		return nil
	}
	asked := ""
	if list := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(list) > 0 {
		asked = list[0]
	}
	parent, yes := s.tracer.Sampled(asked)
	if yes {
		w.marks = &trace.Marks{Began: time.Now()}
	}
	return parent
}

// methodOf names a span after the method that clients call.
func methodOf(api API) string {
	if api == APIModelInfer {
		return "inference.GRPCInferenceService/ModelInfer"
	}
	return "rankd.v1.PredictionService/Predict"
}

// waiter is the Responder of a blocked handler.
type waiter struct {
	done chan struct{} // one token a reply
	pool mem.BufferPool
	body mem.Buffer
	err  *Error

	marks *trace.Marks // nil: the call is not traced
}

// Marks implements Marked.
func (w *waiter) Marks() *trace.Marks { return w.marks }

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }}

// Reply copies the body, which belongs to the core, and releases the handler.
func (w *waiter) Reply(body []byte, err *Error) {
	if w.err = err; err == nil {
		w.body = mem.Copy(body, w.pool)
	}
	w.done <- struct{}{}
}
