// Package launch starts a rankd server as a process of its own for a measurement, waits until it is ready, and ends it.
//
// # Nouns
//
//   - server: the supervisor's process and all below it, in an instance and a run directory of its own.
//
// # Invariants
//
//	I1  A server that was started is ended and waited for: by Stop, or, should this process die, by the kernel.
//	I2  Two servers never share an instance, a run directory or an address.
//
// # Concurrency
//
// A Server may be used by one goroutine.
//
// # Failure
//
// A server that ends before it is ready is an error with the last lines of its log.
package launch
