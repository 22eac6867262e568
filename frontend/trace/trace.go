package trace

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say what is traced and where it goes.
type Options struct {
	Endpoint string  // of the collector, host:port; gRPC without TLS
	Sample   float64 // share of the requests that is traced although the client does not ask for it, 0 to 1
	Model    string
	Version  string
	Frontend int
	Log      *slog.Logger
}

const (
	queued       = 2048 // spans that wait at most
	sendLimit    = 2 * time.Second
	closeLimit   = time.Second
	complainOnce = 10 * time.Second
)

// Tracer makes spans. A nil Tracer samples nothing.
type Tracer struct {
	sample   float64
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	headers  propagation.TraceContext
}

// CheckEndpoint says whether an address is one that spans can be sent to.
func CheckEndpoint(address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("got %q, want host:port of an OTLP collector (gRPC), such as 127.0.0.1:4317", address)
	}
	return nil
}

// New makes a tracer. Nothing is sent before a request is sampled, and a collector that is not there is no error.
func New(ctx context.Context, o Options) (*Tracer, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(o.Endpoint), otlptracegrpc.WithInsecure(), otlptracegrpc.WithTimeout(sendLimit),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("make exporter of traces to %s: %w", o.Endpoint, err)
	}
	var last atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		if before := last.Load(); now-before >= int64(complainOnce) && last.CompareAndSwap(before, now) {
			o.Log.Warn("spans are lost", "endpoint", o.Endpoint, "error", err)
		}
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(queued), sdktrace.WithExportTimeout(sendLimit), sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "rankd"), attribute.String("rankd.model", o.Model), attribute.String("rankd.model_version", o.Version),
			attribute.Int("rankd.frontend", o.Frontend),
		)),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // what comes here has been sampled
	)
	return &Tracer{sample: o.Sample, provider: provider, tracer: provider.Tracer("rankd")}, nil
}

// Close sends what waits, for a second at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the collector may be gone
}

// Sampled decides about a request whose client has sent this traceparent; "" if it has sent none. parent is that of the spans.
func (t *Tracer) Sampled(traceparent string) (parent context.Context, yes bool) {
	if t == nil {
		return nil, false
	}
	if traceparent != "" {
		parent = t.headers.Extract(context.Background(), carrier(traceparent))
		if trace.SpanContextFromContext(parent).IsSampled() {
			return parent, true
		}
	}
	if t.sample == 0 || rand.Float64() >= t.sample {
		return nil, false
	}
	if parent == nil {
		parent = context.Background()
	}
	return parent, true
}

// carrier is a traceparent as the propagation of OpenTelemetry wants it.
type carrier string

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == "traceparent" {
		return string(c)
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return []string{"traceparent"} }

// Marks are the moments of a request. A zero one was not reached.
type Marks struct {
	Began    time.Time
	Decoded  time.Time // admitted, too
	LookedUp time.Time
	Scored   time.Time // the last scores came
	Replied  time.Time
	Rows     int
}

// Record sends the spans of a request. refused is why it was not scored, "" if it was.
func (t *Tracer) Record(parent context.Context, method string, m *Marks, refused string) {
	ctx, whole := t.tracer.Start(parent, method, trace.WithTimestamp(m.Began), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "grpc"), attribute.String("rpc.method", method), attribute.Int("rankd.rows", m.Rows)))
	from := m.Began
	for _, stage := range []struct {
		name string
		end  time.Time
	}{{"decode", m.Decoded}, {"lookup", m.LookedUp}, {"batch", m.Scored}, {"reply", m.Replied}} {
		if stage.end.IsZero() {
			continue
		}
		if stage.end.Before(from) { // scores of a small request may come before its goroutine goes on
			stage.end = from
		}
		_, span := t.tracer.Start(ctx, stage.name, trace.WithTimestamp(from))
		span.End(trace.WithTimestamp(stage.end))
		from = stage.end
	}
	if refused != "" {
		whole.SetStatus(codes.Error, refused)
		whole.SetAttributes(attribute.String("rankd.reason", refused))
	}
	whole.End(trace.WithTimestamp(from))
}
