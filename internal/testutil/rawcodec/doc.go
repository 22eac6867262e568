// Package rawcodec is a gRPC codec for test servers that looks at the bytes of messages: a message is a *[]byte.
//
// # Invariants
//
//	I1  Messages go through unchanged. What is received is a copy that the test owns.
//
// # Failure
//
// Another type of message panics: a test handed over the wrong thing.
package rawcodec
