// Package nullserver answers every unary gRPC call with the same bytes and does nothing else. It shows what a load generator itself
// costs: against it the client, the kernel's sockets and a few hundred nanoseconds of server are all that there is.
//
// # Nouns
//
//   - session: one connection; it looks at frames, not at headers or messages.
//   - answer: headers, one message of zeros, trailers with grpc-status 0.
//
// # Invariants
//
//	I1  Every stream that the client ends gets one answer, as soon as the client's window has room for it.
//	I2  What a connection keeps is bounded: 16 bytes for each answer that waits for a window, and no request is stored.
//
// # Concurrency
//
// Each loop runs on a goroutine of its own; a connection belongs to one of them.
//
// # Failure
//
// A connection that breaks the protocol is closed. The server ends when its context does.
package nullserver
