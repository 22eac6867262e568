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
//	I2  A request is sent again only after a refusal that carries RetryInfo, at most Options.Retries times.
//
// # Concurrency
//
// A Client may be used by any number of goroutines.
//
// # Failure
//
// Errors name the target and carry the server's code, reason and message; Reason extracts the reason.
package client
