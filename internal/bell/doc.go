// Package bell is the doorbell of a process: an eventfd that others ring and that its own goroutines wait for in the
// runtime's poller, so that a wait costs no thread.
//
// # Nouns
//
//   - bell: one eventfd. Its counter is the memory of rings that nobody has waited for yet.
//   - set: the bells of all frontends as the owner and the supervisor hold them, by index.
//
// # Invariants
//
//	I1  A ring before a wait makes that wait return at once: rings are counted, not lost.
//	I2  Ring never blocks: a full counter already means "wake up".
//
// # Concurrency
//
// Ring and Wait may be called by any goroutine of any process that holds the descriptor.
//
// # Failure
//
// A ring that the kernel refuses (a closed descriptor) is ignored: every wait is bounded by its caller.
package bell
