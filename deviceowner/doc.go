// Package deviceowner is the one process that opens the accelerator. It closes the batches that frontends form in the
// ring, runs each on an executor, and publishes the scores. It never reads a row: one owner serves any number of frontends.
//
// # Nouns
//
//   - policy: when an open slab is closed: continuous, linger, fused or off.
//   - queue: slabs that are closed and not yet launched, in the order of their closing.
//   - launch: a slab (or one reservation of it) on the executor.
//   - rerun: the execution of a slab reservation by reservation, after an execution of the whole ended in an error or a crash.
//
// # Invariants
//
//	I1  At most depth launches are in flight.
//	I2  A slab is completed only after the executor's done call: until then its memory is the executor's.
//	I3  Every bucket is compiled before the owner is ready; a compile afterwards is counted as a bug.
//	I4  An error of the device refuses only reservations that fail alone.
//	I5  The owner's loop never waits for the device: it turns at least every shmring.MaxPark, also during a long batch.
//
// # Policies
//
//	continuous  close when the slab is full, or as soon as the device can take a batch and the slab has rows; no timer
//	linger      as continuous, but wait up to max-delay after the first row for more
//	fused       close when the slab is full or max-delay after the first row, whether the device is free or not
//	off         no batching: every request (up to max-batch rows) has a slab of its own, closed by the frontend that takes it
//
// # Concurrency
//
// One goroutine runs the loop and owns the ring's Owner. The executor's done calls arrive on any goroutine; they put a
// completion into a channel with room for all launches and ring the loop's own doorbell.
//
// # Failure
//
// The process may be killed anywhere; what its successor finds is told in package shmring. An executor that reports
// executor.ErrDead ends the process with an error, and the supervisor starts the next one. A slab whose execution was begun
// by a process that died is rerun; a reservation that was tried alone maxTries times by processes that died is refused with a
// device error.
package deviceowner
