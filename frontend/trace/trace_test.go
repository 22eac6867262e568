package trace

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"rankd/frontend/trace/tracetest"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

const limit = 20 * time.Second

// named is the first span of a name, nil if there is none.
func named(c *tracetest.Collector, name string) *spans.Span {
	if list := c.Named(name); len(list) > 0 {
		return list[0]
	}
	return nil
}

// log is a buffer that several goroutines write to.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func tracer(t *testing.T, address string, sample float64) (*Tracer, *log) {
	t.Helper()
	out := &log{}
	x, err := New(t.Context(), Options{Endpoint: address, Sample: sample, Model: "test", Version: "1", Frontend: 3, Log: slog.New(slog.NewTextHandler(out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return x, out
}

func TestSpansOfARequestReachTheCollector(t *testing.T) {
	r := tracetest.Start(t)
	x, _ := tracer(t, r.Address, 0)
	parent, yes := x.Sampled("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if !yes {
		t.Fatal("the client asks for it: got no sample")
	}
	began := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	x.Record(parent, "Predict", &Marks{Began: began, Decoded: at(1), LookedUp: at(5), Scored: at(3), Replied: at(9), Rows: 7}, "")
	x.Close()
	whole := named(r, "Predict")
	if whole == nil {
		t.Fatal("got no span")
	}
	if got := string(whole.ParentSpanId); got != "\xb7\xad\x6b\x71\x69\x20\x33\x31" || !strings.HasPrefix(string(whole.TraceId), "\x0a\xf7\x65") {
		t.Errorf("got parent %x of trace %x, want those of the client", got, whole.TraceId)
	}
	// Scores that came before the lookup's goroutine went on end no earlier than it.
	for name, want := range map[string][2]int{"Predict": {0, 9}, "decode": {0, 1}, "lookup": {1, 5}, "batch": {5, 5}, "reply": {5, 9}} {
		s := named(r, name)
		if s == nil {
			t.Errorf("got no span %s", name)
			continue
		}
		if from, to := time.Unix(0, int64(s.StartTimeUnixNano)), time.Unix(0, int64(s.EndTimeUnixNano)); !from.Equal(at(want[0])) || !to.Equal(at(want[1])) {
			t.Errorf("%s: got %v to %v ms", name, from.Sub(began), to.Sub(began))
		}
	}
}

func TestRefusalIsAnErrorOfTheSpan(t *testing.T) {
	r := tracetest.Start(t)
	x, _ := tracer(t, r.Address, 1)
	parent, yes := x.Sampled("")
	if !yes {
		t.Fatal("a sample of 1: got none")
	}
	x.Record(parent, "Predict", &Marks{Began: time.Now()}, "server_total_queue_full")
	x.Close()
	if s := named(r, "Predict"); s == nil || s.Status.GetMessage() != "server_total_queue_full" || s.Status.GetCode() != spans.Status_STATUS_CODE_ERROR {
		t.Errorf("got %v", s)
	}
	if s := named(r, "decode"); s != nil {
		t.Errorf("got a stage that was not reached: %v", s)
	}
}

func TestI1RequestsThatAreNotSampledCostNothing(t *testing.T) {
	x, _ := tracer(t, "127.0.0.1:1", 0)
	defer x.Close()
	var none *Tracer
	for name, f := range map[string]func(){"off": func() { none.Sampled("") }, "on": func() { x.Sampled("") }} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
	if _, yes := x.Sampled("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"); yes {
		t.Error("the client does not ask for it: got a sample")
	}
	if _, yes := x.Sampled("rubbish"); yes {
		t.Error("a header that is none: got a sample")
	}
	some, _ := tracer(t, "127.0.0.1:1", 0.25)
	defer some.Close()
	n := 0
	for range 10_000 {
		if _, yes := some.Sampled(""); yes {
			n++
		}
	}
	if n < 2200 || n > 2800 {
		t.Errorf("a sample of a quarter: got %d of 10,000", n)
	}
}

func TestI2CollectorThatIsGoneIsToldAndHurtsNobody(t *testing.T) {
	r := tracetest.Start(t)
	r.Stop()
	x, out := tracer(t, r.Address, 1)
	for range 3 * queued { // more than the queue holds: Record never waits
		parent, _ := x.Sampled("")
		x.Record(parent, "Predict", &Marks{Began: time.Now()}, "")
	}
	testutil.Eventually(t, limit, "a complaint", func() bool { return strings.Contains(out.String(), "spans are lost") })
	began := time.Now()
	x.Close()
	if took := time.Since(began); took > 2*closeLimit+sendLimit {
		t.Errorf("closing took %v", took)
	}
	if n := strings.Count(out.String(), "spans are lost"); n > 2 {
		t.Errorf("got %d complaints, want one in %v", n, complainOnce)
	}
	if err := CheckEndpoint("nowhere"); err == nil || CheckEndpoint("127.0.0.1:4317") != nil {
		t.Errorf("got %v", err)
	}
}
