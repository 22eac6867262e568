package e2e

import (
	"context"
	"encoding/hex"
	"testing"

	"google.golang.org/grpc/metadata"

	"rankd/frontend/trace/tracetest"
	"rankd/internal/testutil"
)

// A request that its client traces has spans below the client's own, and one that it does not trace has none. When the collector is gone,
// requests are served as before.
func TestRequestsThatTheirClientTracesHaveSpans(t *testing.T) {
	const method, client, span = "rankd.v1.PredictionService/Predict", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	collector := tracetest.Start(t)
	seed, b := seedOf(t), testModel(t)
	s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=2", "--trace-endpoint=" + collector.Address}})
	e := newExam(t, b, seed, 64, simulated(t, b.Manifest))
	rng := random(seed, "calls")
	lanes := flat(s.lanes(2, 1))
	ask := func(traceparent string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if traceparent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", traceparent)
		}
		if _, err := e.ask(ctx, lanes[rng.IntN(len(lanes))], e.pick(rng, 5), packedInt64, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		ask("")
		ask("00-" + client + "-" + span + "-00") // known, and not traced
	}
	const traced = 10
	for range traced {
		ask("00-" + client + "-" + span + "-01")
	}
	testutil.Eventually(t, limit, "the spans", func() bool { return len(collector.Named(method)) >= traced && len(collector.Named("reply")) >= traced })
	if n := len(collector.Named(method)); n != traced {
		t.Errorf("got %d spans, want those of %d requests", n, traced)
	}
	wholes := map[string]bool{}
	for _, x := range collector.Named(method) {
		if hex.EncodeToString(x.TraceId) != client || hex.EncodeToString(x.ParentSpanId) != span {
			t.Errorf("got trace %x below %x, want the client's", x.TraceId, x.ParentSpanId)
		}
		wholes[hex.EncodeToString(x.SpanId)] = true
	}
	for _, stage := range []string{"decode", "lookup", "batch", "reply"} {
		list := collector.Named(stage)
		if len(list) != traced {
			t.Errorf("%s: got %d spans, want %d", stage, len(list), traced)
		}
		for _, x := range list {
			if !wholes[hex.EncodeToString(x.ParentSpanId)] || x.EndTimeUnixNano < x.StartTimeUnixNano {
				t.Errorf("%s: got a span of another request, or one that ends before it begins: %v", stage, x)
			}
		}
	}
	collector.Stop()
	for range 200 {
		ask("00-" + client + "-" + span + "-01")
	}
	s.wantAtRest()
}
