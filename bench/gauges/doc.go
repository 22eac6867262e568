// Package gauges reads what a rankd server says of itself while it is measured: its queues and what it holds, beside the memory that
// the kernel sees.
//
// # Nouns
//
//   - gauge: a metric of the server's status page that goes up and down.
//   - sample: all gauges that matter here at one moment, and the resident memory of all processes of the server.
//   - watch: samples at a fixed distance, until it is stopped.
//
// # Invariants
//
//	I1  A moment at which the server did not answer has no sample; it is never filled in.
//
// # Concurrency
//
// A Watch samples on a goroutine of its own until Stop.
//
// # Failure
//
// A server that cannot be asked at the start is an error; later only the number of missed samples says so.
package gauges
