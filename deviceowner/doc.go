// Package deviceowner is the one process that opens the accelerator. It closes the batches that frontends form in the
// ring, runs each on an executor, and publishes the scores. It never reads a row: one owner serves any number of frontends.
//
// # Nouns
//
//   - policy: when an open slab is closed: continuous, linger, fused or off.
//   - queue: slabs that are closed and not yet launched, in the order of their closing.
//   - launch: a slab (or one reservation of it) on the executor. It occupies one of depth places.
//   - rerun: the execution of a slab reservation by reservation, after an execution of the whole ended in an error or a crash.
//   - turn: one pass of the loop over everything that could be done now.
//
// # Invariants
//
//	I1  At most depth launches are in flight: the configured pipeline depth, or the executor's if that is less.
//	I2  A slab is completed only after the executor's done call: until then its memory is the executor's.
//	I3  Every bucket is compiled before the owner is ready; a compile afterwards is counted as a bug.
//	I4  An error of the device refuses only reservations that fail alone.
//	I5  The loop never waits for the device: it turns at least every shmring.MaxPark, also during a long batch and while
//	    it drains.
//	I6  A slab that waits, for a commit or in a rerun, holds up no other: those behind it are launched, and open ones are
//	    closed as if it were not there. Only a commit that is less than commitPatience late is waited for.
//	I7  Slabs whose rows are final are launched in the order of their closing.
//	I8  The loop sleeps only when a further turn would change nothing before a bell rings or the sleep's limit is over.
//
// # Policies
//
//	continuous  close when the slab is full, or as soon as the device can take a batch and the slab has rows; no timer
//	linger      as continuous, but wait up to max-delay after the first row for more
//	fused       close when the slab is full or max-delay after the first row, whether the device is free or not
//	off         no batching: every request (up to max-batch rows) has a slab of its own, closed by the frontend that takes it
//
// The first row is the first that the loop sees: a parked loop sees it when it is committed.
//
// # Counters
//
// Batches, rows, sizes and launches by bucket count every launch, those of reruns included, so rows of a rerun count
// twice. The wait of a batch is from its first row, as above, to its launch: the longest that any of its rows has waited.
// It is observed once a batch, and not for what a predecessor has closed. The time on the device ends with the done call.
//
// # Concurrency
//
// One goroutine runs the loop and owns the ring's Owner. The executor's done calls arrive on any goroutine; they put a
// completion into a channel with room for all launches and ring the loop's own doorbell. When there is nothing to do the
// loop spins for the configured time, if every frontend and the loop have a processor each, and then sleeps on the
// doorbell.
//
// A sleep that ends by its limit is examined while it is still announced: rows committed, a launch done, a death or a
// needed acknowledgement that is there although nobody has rung is a lost wake-up, and is counted apart (it must stay 0).
//
// # End
//
// When it is told to stop (SIGTERM) the loop opens no more slabs, closes those that have rows, and finishes what is closed
// for at most drainLimit; launches in flight are waited for in any case. The supervisor ends the frontends first, and rows of
// which no live frontend wants the scores are not executed, so then there is little left to do. If only the owner is
// stopped, requests that have rows get their scores at once, and others wait for the successor.
//
// # Failure
//
// The process may be killed anywhere; what its successor finds is told in package shmring. An executor that reports
// executor.ErrDead ends the process with an error, and the supervisor starts the next one. A slab whose execution was begun
// by a process that died is rerun; a reservation that was tried alone maxTries times by processes that died is refused with a
// device error. A rerun and the queue take turns on the device, so a long one delays others and does not stop them.
//
// A launch that never ends stops nothing but its place; its age is published, and the supervisor kills the process when
// it is too old.
package deviceowner
