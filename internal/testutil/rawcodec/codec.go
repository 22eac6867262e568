package rawcodec

import "google.golang.org/grpc/mem"

// Codec is for grpc.ForceServerCodecV2 and grpc.ForceCodecV2.
type Codec struct{}

// Marshal sends the bytes of a *[]byte, which must not change before they are sent.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal copies the message into a *[]byte.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is what content types end in.
func (Codec) Name() string { return "raw" }
