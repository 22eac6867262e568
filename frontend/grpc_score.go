package frontend

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// The scoring methods are unary for clients. For grpc-go they are registered as streams of one message each way, which is
// the same on the wire: the handler of a stream receives the message itself, and so can give a message that is too large
// or does not inflate its proper refusal. The handler of a unary method would not even be called.

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
		Handler:    func(srv any, stream grpc.ServerStream) error { return srv.(scorer).score(api, stream) },
	})
	return &desc
}

// scorer is what the scoring services embed: the core behind a blocking handler.
type scorer struct {
	core *Core
	pool mem.BufferPool
}

func (s scorer) score(api API, stream grpc.ServerStream) error {
	var in rawRequest
	if err := stream.RecvMsg(&in); err != nil {
		return s.receiveError(api, err)
	}
	request := in.data.MaterializeToBuffer(s.pool)
	in.data.Free()
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

// receiveError gives the errors that grpc-go meets before a message is complete the codes that rankd documents. grpc-go
// tells them apart by text only.
func (s scorer) receiveError(api API, err error) error {
	st, text := status.Convert(err), status.Convert(err).Message()
	limit := int64(s.core.cfg.MaxRequestBytes)
	var own *Error
	switch {
	case st.Code() == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		own = errTooManyBytes(sizeIn(text), limit)
	case st.Code() == codes.Internal && strings.Contains(text, "decompress"):
		own = &Error{
			Code: codes.InvalidArgument, Reason: ReasonInvalidCompression,
			Msg: "read request: the message does not decompress: " + text,
		}
	default:
		return err
	}
	s.core.meter.ended(api, own)
	return own.Status().Err()
}

// sizeIn reads the size out of "… (SIZE vs. LIMIT)"; 0 if there is none, as after decompression that was cut short.
func sizeIn(text string) (size int64) {
	_, text, ok := strings.Cut(text, "(")
	if !ok {
		return 0
	}
	for _, d := range []byte(text) {
		if d < '0' || d > '9' {
			break
		}
		size = size*10 + int64(d-'0')
	}
	return size
}
