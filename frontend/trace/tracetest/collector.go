package tracetest

import (
	"context"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector is one.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	Address string

	server *grpc.Server
	mu     sync.Mutex
	spans  []*spans.Span
}

// Start starts a collector on the loopback, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Address: l.Addr().String(), server: grpc.NewServer()}
	collector.RegisterTraceServiceServer(c.server, c)
	go func() { _ = c.server.Serve(l) }() // ends with Stop
	t.Cleanup(c.Stop)
	return c
}

// Stop ends it; whoever sends finds nobody from then on.
func (c *Collector) Stop() { c.server.Stop() }

// Export implements the service.
func (c *Collector) Export(_ context.Context, x *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range x.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Named are the spans of a name, in the order of their arrival.
func (c *Collector) Named(name string) (list []*spans.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}
