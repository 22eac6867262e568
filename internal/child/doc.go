// Package child is the contract between the supervisor and the processes that it starts: which descriptors a child
// inherits and under which flags, how it says that it is ready, and how it learns that the supervisor is gone.
//
// # Nouns
//
//   - role: what a child is, "frontend" or "deviceowner"; the first argument of its command line.
//   - incarnation: the number of times that a place (a role and an index) has been filled, from 1.
//   - ready line: "ready layout=<version> incarnation=<k>", written once to the ready descriptor, which is then closed.
//   - life pipe: a pipe whose writing end only the supervisor holds. The kernel closes it when the supervisor dies.
//
// # Invariants
//
//	I1  A child writes its ready line at most once, after it has proved to itself that it can serve.
//	I2  No byte is ever written to a life pipe: whatever is read from it is the end of the file.
//
// # Concurrency
//
// Everything may be called from any goroutine. WatchLife owns the descriptor that it is given.
//
// # Failure
//
// A supervisor killed at any instruction closes the life pipe; a child then stops. The parent-death signal, set by the
// supervisor when it forks, covers a child that is stuck and does not look.
package child
