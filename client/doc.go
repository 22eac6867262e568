// Package client sends rows to a rankd server over a few connections. It is what the tools of this module use; a service
// that calls rankd needs no more than the generated code of its own language.
//
// # Nouns
//
//   - tensor: a named input: element type, shape, little-endian bytes.
//   - client: some connections to one target, used in turn. Each connection reaches one frontend process, so one connection
//     can use one frontend only.
//   - refusal: an answer that is an error with a reason; RetryInfo in it says when trying again may help.
//
// # Invariants
//
//	I1  Score returns as many values for each output as its shape says, or an error.
//	I2  A request is sent again, at most Options.Retries times, after a refusal that carries RetryInfo, when the delay in it
//	    has passed; and after UNAVAILABLE without one, which is a connection that broke: on the next connection, after 50 ms,
//	    doubling up to 2 s. Scoring has no side effects, so it does not matter whether the server saw it.
//	I3  Nothing is sent again, and the error is an ErrNoServer, while no connection to the target was ever made.
//
// # Concurrency
//
// A Client may be used by any number of goroutines.
//
// # Failure
//
// Errors name the target and carry the server's code, reason and message; Reason extracts the reason.
package client
