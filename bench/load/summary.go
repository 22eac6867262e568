package load

import (
	"fmt"
	"strings"

	"rankd/bench/exam"
)

// Title names the run in a few words.
func (r *Result) Title() string {
	if r.Mode == Closed {
		return "closed loop, " + Callers(r.Callers)
	}
	return fmt.Sprintf("%s schedule, %.0f requests/s", r.Mode, r.Rate)
}

// Callers are so many of them, in words.
func Callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// PerRequest is how many examples a request has, in words.
func PerRequest(rows int) string {
	if rows == 1 {
		return "1 example a request"
	}
	return fmt.Sprintf("%d examples a request", rows)
}

// Summary is the result for people, a few lines.
func (r *Result) Summary() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	device := ""
	if r.Simulated {
		device = ", simulated accelerator"
	}
	if r.Workload != "" && r.Workload != exam.Independent {
		device = ", workload " + r.Workload + device
	}
	line("%s over %d connections, %s (%.0f bytes), %s ids%s", r.Title(), r.Connections, PerRequest(r.Rows), r.Bytes, r.IDs, device)
	line("  %.0f requests/s  %.0f examples/s  %d timed requests: %d ok, %d failed, %d without a reply", r.RequestRate, r.ExampleRate, r.Timed, r.OK, r.Failed, r.NoReply)
	l := r.Latency
	line("  latency ms: p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f", l.P50, l.P90, l.P99, l.P999, l.Max)
	if s := r.Server; s != nil {
		line("  server CPU: %.2f s, %.4f s per 1,000 examples, %.1f µs a call", s.CPU, s.PerThousand, s.PerCall)
	}
	c := r.Client
	limited := ""
	if c.Limited {
		limited = "  THE CLIENT WAS THE LIMIT"
	}
	line("  client CPU: %.1f µs a call, %.0f %% of %d processors, busiest of %d threads %.0f %%%s", c.PerCall, 100*c.Share, c.Processors, c.Threads, 100*c.Busiest, limited)
	if r.Mode != Closed {
		line("  requests were sent late by ms: p50 %.3f  p99 %.3f  max %.3f", c.Lag.P50, c.Lag.P99, c.Lag.Max)
	}
	switch {
	case r.OK == 0 && r.Mismatches == 0:
		line("  NOTHING WAS ANSWERED")
	case !r.Verified:
		line("  replies were not compared with anything")
	case r.Mismatches > 0:
		line("  %d REPLIES WERE WRONG, the first: %s", r.Mismatches, r.FirstMismatch)
	default:
		line("  every reply was right (largest difference of a score %.2g)", r.MaxDifference)
	}
	if r.Lost {
		line("  THE SERVER WENT AWAY: there was no connection to it at the end")
	}
	for _, e := range r.Errors {
		line("  %d × %s %s: %s", e.Count, e.Code, e.Reason, e.Text)
	}
	return b.String()
}
