// Package batching names the policies by which batches are closed, and what follows from a policy on both sides of the
// ring. What a policy decides is in package deviceowner, which closes the batches.
//
// # Nouns
//
//   - policy: when an open slab stops taking rows and goes to the device. One policy holds for a whole server.
//
// # Invariants
//
//	I1  Every policy is in All once, and has a row in the table that Kind's methods read; a Kind that is not in All panics
//	    where it is used, and no process starts with one.
//
// # Concurrency
//
// Everything here is constant.
//
// # Failure
//
// Nothing fails; an unknown policy is a bug, since flags are checked at start.
package batching
