package frontend

import (
	"io"
	"runtime"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// boundedGzip is gRPC's gzip with a bound on how many messages are inflated at once. gRPC itself stops each at the message
// limit, but fifty small bombs at once would still hold fifty times that limit.
type boundedGzip struct {
	encoding.Compressor
	slots chan struct{}
}

// Compressors are found by name in a registry that must not change after init.
func init() {
	encoding.RegisterCompressor(&boundedGzip{
		Compressor: encoding.GetCompressor(gzip.Name),
		slots:      make(chan struct{}, max(2, runtime.NumCPU())),
	})
}

// Decompress waits for a slot. The compressed message is in memory, so a slot is held for as long as inflating takes and
// not for as long as a slow client likes.
func (g *boundedGzip) Decompress(r io.Reader) (io.Reader, error) {
	g.slots <- struct{}{}
	inner, err := g.Compressor.Decompress(r)
	if err != nil {
		<-g.slots
		return nil, err
	}
	return &inflating{Reader: inner, slots: g.slots}, nil
}

// inflating gives the slot back when gRPC closes it, which it does however the read ends.
type inflating struct {
	io.Reader
	slots chan struct{}
}

func (r *inflating) Close() error {
	defer func() { <-r.slots }()
	if c, ok := r.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
