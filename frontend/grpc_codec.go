package frontend

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// rawRequest receives a message as it came. Its owner frees data.
type rawRequest struct {
	data mem.BufferSlice
}

// rawReply is a message that is encoded already. gRPC frees its buffer.
type rawReply struct {
	body mem.Buffer
}

// codec passes raw messages through and leaves all others to the ordinary protobuf codec.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal takes a reference on the bytes of a raw request: gRPC frees its own when Unmarshal returns.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*rawRequest); ok {
		data.Ref()
		raw.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal hands a raw reply's buffer over.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.(*rawReply); ok {
		return mem.BufferSlice{raw.body}, nil
	}
	return c.CodecV2.Marshal(v)
}
