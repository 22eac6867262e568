package load

import (
	"rankd/bench/exam"
)

// Schema is the version of the JSON form of Result. It changes when a field changes its meaning or goes.
const Schema = 1

// Result is one run. Rates are per second, latencies milliseconds, times seconds; examples are rows.
type Result struct {
	Schema  int    `json:"schema"`
	Target  string `json:"target"`
	Mode    string `json:"mode"`              // "closed", "poisson" or "fixed"
	Callers int    `json:"callers,omitempty"` // closed loop
	// Rate is the requests a second that were offered; open loop.
	Rate float64 `json:"rate,omitempty"`
	// Share is which part of the server's own peak the rate is, where it was chosen so.
	Share       float64 `json:"share_of_peak,omitempty"`
	Connections int     `json:"connections"`
	Rows        int     `json:"examples_per_request"`
	Bytes       float64 `json:"request_bytes"`
	Warmup      float64 `json:"warmup_s"`
	Duration    float64 `json:"duration_s"`
	Deadline    float64 `json:"deadline_s,omitempty"`
	Began       string  `json:"began"` // start of the window, RFC 3339
	Seed        uint64  `json:"seed"`
	IDs         string  `json:"ids"`
	Workload    string  `json:"workload"` // "" in results that are older than the choice: independent examples
	Executor    string  `json:"executor"` // whose scores were expected: "sim" is a simulated accelerator
	Simulated   bool    `json:"simulated_accelerator"`
	Protocol    string  `json:"protocol"`
	Verified    bool    `json:"verified"` // every reply was compared with its expectation

	// Timed requests, and what became of them: Timed = OK + Failed + Mismatches + NoReply.
	Timed      uint64 `json:"timed"`
	OK         uint64 `json:"ok"`
	Failed     uint64 `json:"failed"`
	Mismatches uint64 `json:"mismatches"`
	NoReply    uint64 `json:"no_reply"`

	// Requests and examples that were answered rightly within the window, a second.
	RequestRate float64 `json:"requests_per_s"`
	ExampleRate float64 `json:"examples_per_s"`

	Latency       Latency `json:"latency_ms"` // of timed requests that ended ok
	MaxDifference float64 `json:"max_score_difference"`
	Errors        []Error `json:"errors,omitempty"`
	FirstMismatch string  `json:"first_mismatch,omitempty"`
	Reconnects    uint64  `json:"reconnects,omitempty"`
	Lost          bool    `json:"server_lost,omitempty"` // at the end no connection took calls any more

	Client  Client   `json:"client"`
	Server  *Server  `json:"server,omitempty"`
	Seconds []Second `json:"seconds"`
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Error is how often timed requests ended with a code and a reason.
type Error struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"` // of google.rpc.ErrorInfo
	Text   string `json:"text"`             // of the first one
	Count  uint64 `json:"count"`
}

// Client is what this process used in the window.
type Client struct {
	CPU        float64 `json:"cpu_s"`
	Processors int     `json:"processors"`
	Threads    int     `json:"threads"`
	Share      float64 `json:"cpu_share"`            // of all its processors
	Busiest    float64 `json:"busiest_thread_share"` // of one processor
	PerCall    float64 `json:"cpu_us_per_call"`
	Limited    bool    `json:"client_limited"` // I5
	// Lag is by how much requests of an open loop were handed to their connections late; it is a part of Latency.
	Lag Latency `json:"send_lag_ms"`
}

// Server is what the server used in the window.
type Server struct {
	CPU         float64 `json:"cpu_s"`
	PerThousand float64 `json:"cpu_s_per_1000"`           // examples
	PerCore     float64 `json:"examples_per_core_second"` //
	PerCall     float64 `json:"cpu_us_per_call"`
}

// Second is one second of the window, by the time of the reply.
type Second struct {
	Second int     `json:"second"`
	OK     uint64  `json:"ok"`
	Failed uint64  `json:"failed"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

// describe fills in what is known before the run.
func describe(o *Options) *Result {
	r := &Result{
		Schema: Schema, Target: o.Target, Mode: o.Mode, Connections: o.Connections,
		Rows: o.Requests.Rows, Bytes: o.Requests.Bytes, Warmup: o.Warmup.Seconds(), Duration: o.Duration.Seconds(),
		Deadline: o.Deadline.Seconds(), Seed: o.Seed, Verified: o.Verify,
	}
	set := o.Requests.Set().Options()
	r.IDs, r.Workload, r.Executor, r.Protocol, r.Simulated = set.IDs, set.Workload, set.Executor, set.Protocol, set.Executor == exam.Sim
	if o.Mode == Closed {
		r.Callers = o.Callers
	} else {
		r.Rate = o.Rate
	}
	return r
}

// Within reports whether every timed request was answered rightly, no later than limit milliseconds after it was due.
func (r *Result) Within(limit float64) bool {
	return r.Timed > 0 && r.OK == r.Timed && r.Latency.Max <= limit
}
