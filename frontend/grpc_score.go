package frontend

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

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
	core *Core
	pool mem.BufferPool
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
	body, refused := w.body, w.err
	w.body, w.err = nil, nil
	waiters.Put(w)
	if refused != nil {
		return refused.Status().Err()
	}
	return stream.SendMsg(&rawReply{body: body})
}

// waiter is the Responder of a blocked handler.
type waiter struct {
	done chan struct{} // one token a reply
	pool mem.BufferPool
	body mem.Buffer
	err  *Error
}

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }}

// Reply copies the body, which belongs to the core, and releases the handler.
func (w *waiter) Reply(body []byte, err *Error) {
	if w.err = err; err == nil {
		w.body = mem.Copy(body, w.pool)
	}
	w.done <- struct{}{}
}
