// Package launch starts a server, rankd or another one, as a process of its own for a measurement, waits until it is ready, and
// ends it.
//
// # Nouns
//
//   - server: the process that was started and all below it; rankd's has an instance and a run directory of its own.
//   - mark: an environment variable that all processes of a server inherit.
//
// # Invariants
//
//	I1  A server that was started is ended and waited for: by Stop, or, should this process die, by the kernel.
//	I2  Two servers never share an instance, a run directory or an address.
//	I3  When Stop returns no process with the server's mark runs, and no file in shared memory has its name; had one been left, it is
//	    gone now and Stop returned an error.
//
// # Concurrency
//
// A Server may be used by one goroutine.
//
// # Failure
//
// A server that ends before it is ready is an error with the last lines of its log.
package launch
