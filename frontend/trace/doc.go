// Package trace makes OpenTelemetry spans of sampled requests and sends them to a collector (OTLP over gRPC).
//
// # Nouns
//
//   - marks: the moments of one request that its stages begin and end at. Whoever handles the request writes them down.
//   - span: what is sent of a request: one for the whole, and one for each stage below it.
//   - sampled: chosen to be traced, by the client (its traceparent says so) or by chance.
//
// # Invariants
//
//	I1  A request that is not sampled costs a look at its headers and a random number, and allocates nothing for it.
//	I2  A collector that is slow, gone or wrong costs spans, never requests: spans wait in a bounded queue and are dropped beyond.
//
// # Spans
//
//	rankd.Predict or inference.ModelInfer   from the message's arrival until the reply was handed to gRPC
//	├── decode                              decoded, bound to the model, ids checked, admitted
//	├── lookup                              rows looked up and committed by the connection's own goroutine
//	├── batch                               until the last scores came: waiting for the batch, and the device
//	└── reply                               until the reply was handed to gRPC
//
// What a batch waits and what the device takes is known to the device owner for the batch, not for the request: the metrics have it.
//
// # Failure
//
// Errors of sending are logged, one every ten seconds at most. At the end what waits is sent for a second at most.
package trace
