package frontend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// messageStream is what grpc-go's transport offers below grpc.ServerStream. ServerStream.RecvMsg answers a message that is
// too large by itself, with RESOURCE_EXHAUSTED and without naming the flag, before its caller learns of it; so the scoring
// handlers read messages through this. The methods are exported but not part of grpc-go's interface: a test fails should
// an update take them away, and receive then goes by RecvMsg, whose limit is the same.
type messageStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// The first byte of a message's prefix.
const (
	flagPlain      = 0
	flagCompressed = 1
)

// receive reads the one message of a scoring call, inflated and in one piece. The caller frees it. The limit is looked at
// before any byte of the body is read or inflated; no more than the limit is held.
func (s scorer) receive(stream grpc.ServerStream) (mem.Buffer, error) {
	in, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(messageStream)
	if !ok {
		return s.receiveDefault(stream)
	}
	var prefix [5]byte
	if err := in.ReadMessageHeader(prefix[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.Internal, "read request: the stream ended without a message, want one")
		}
		return nil, err
	}
	size, limit := int64(binary.BigEndian.Uint32(prefix[1:])), int64(s.core.cfg.MaxRequestBytes)
	if size > limit {
		return nil, errTooManyBytes(size, limit)
	}
	data, err := in.Read(int(size))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Internal, "read request: the stream ended within the message")
		}
		return nil, err
	}
	defer data.Free()
	if err := wantEnd(in); err != nil {
		return nil, err
	}
	switch prefix[0] {
	case flagPlain:
		return data.MaterializeToBuffer(s.pool), nil
	case flagCompressed:
		return s.inflate(data, in.RecvCompress(), limit)
	}
	return nil, status.Errorf(codes.Internal, "read request: got message flag %d, want 0 or 1", prefix[0])
}

// wantEnd waits for the client to close its side, as a unary call does together with its message.
func wantEnd(in messageStream) error {
	var prefix [5]byte
	switch err := in.ReadMessageHeader(prefix[:]); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return status.Error(codes.Internal, "read request: got a second message, want one")
	default:
		return err
	}
}

func (s scorer) inflate(data mem.BufferSlice, name string, limit int64) (mem.Buffer, error) {
	compressor := encoding.GetCompressor(name)
	if compressor == nil {
		return nil, status.Errorf(codes.Internal, "read request: the message is marked as compressed, but grpc-encoding is %q", name)
	}
	r := data.Reader()
	defer r.Close()
	plain, err := compressor.Decompress(r)
	if err != nil {
		return nil, damaged(name, err)
	}
	if c, ok := plain.(io.Closer); ok {
		defer c.Close()
	}
	out, err := mem.ReadAll(io.LimitReader(plain, limit+1), s.pool)
	defer out.Free()
	if err != nil {
		return nil, damaged(name, err)
	}
	if int64(out.Len()) > limit {
		return nil, errTooManyBytes(0, limit)
	}
	return out.MaterializeToBuffer(s.pool), nil
}

func damaged(name string, err error) *Error {
	return refuse(ReasonInvalidCompression, fmt.Sprintf("read request: its %s body does not decompress: %v", name, err),
		map[string]string{"encoding": name})
}

// receiveDefault reads the message the ordinary way.
func (s scorer) receiveDefault(stream grpc.ServerStream) (mem.Buffer, error) {
	var in rawRequest
	if err := stream.RecvMsg(&in); err != nil {
		return nil, err
	}
	defer in.data.Free()
	return in.data.MaterializeToBuffer(s.pool), nil
}
