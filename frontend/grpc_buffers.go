package frontend

import "google.golang.org/grpc/mem"

// bufferSizes are the powers of two that messages are kept in. gRPC's own pool goes from 32 KiB to 1 MiB in one step: 256 requests
// of 120 KB held 256 MiB.
var bufferSizes = []uint8{8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}

// newBuffers is the pool of all messages of one server.
func newBuffers() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(bufferSizes...)
	if err != nil {
		panic(err) // the sizes are ours
	}
	return pool
}
