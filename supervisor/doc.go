// Package supervisor is the parent of a server's processes: it makes once what must outlive any of them, starts them,
// watches them, starts them again, and ends them in order. It serves the metrics and the status page.
//
// # Nouns
//
//   - place: a role and an index that is to be filled with a process, such as frontend 2. There is one place for the device owner.
//   - incarnation: the how-manieth process a place is filled with, from 1.
//   - lock: a file lock for the address served. Every child inherits it, so it is free only when the last process is gone.
//   - orphan: a child that outlived its supervisor although it should not have.
//   - phase: what the server as a whole is doing: loading, starting, serving, rebuilding, draining, stopped.
//
// # Invariants
//
//	I1  One server an address: a second one is refused by the lock, and one that finds only orphans ends them first.
//	I2  Incarnation k+1 of a frontend starts only when k was reaped and the ring reports no trace of it.
//	I3  A death after READY is followed by a start at once; deaths before READY are spaced out, ever further up to a bound.
//	I4  No child outlives the supervisor: the parent-death signal follows a thread that lives as long as the children, and
//	    the life pipe ends with the supervisor.
//	I5  All doorbells are rung whenever a child has exited.
//	I6  Only files of this instance are ever removed, and only after the lock is held. Names are rankd.<instance>.<kind>...,
//	    and an instance name holds no dot, so no instance's prefix begins another's.
//	I7  A drain is bounded: at its end what still runs is killed. A second signal ends it at once; the same within half a second is no second one.
//	I8  One listening socket a frontend, made once: connections that wait in a dead frontend's queue go to its successor.
//	    They begin to listen in the order of the frontends, after the steering was attached (package steer, I1).
//	I9  A frontend counts as dead for the steering before its gauges are cleared, and until its successor is ready.
//	I10 A child that is pinned is so before its first own instruction, in every incarnation, and with it all its threads. Where it
//	    really runs is read from the kernel, once it is ready.
//
// # Order
//
//	lock -> bind -> steer -> load tables -> region -> owner READY -> listen, frontends READY -> server READY
//	drain: flag -> SIGTERM to frontends -> all exited -> SIGTERM to the owner -> exited -> files removed
//
// # Concurrency
//
// One goroutine, the loop, owns every place and talks to the ring; goroutines that wait for a child send it events. The
// status page reads an immutable copy that the loop stores. All forks happen on one locked thread.
//
// # Failure
//
// A child killed at any instruction is reaped and replaced. A child that exits with the code for bad configuration ends the
// server, since it would end the same way again; one that reports a corrupt region has the region made anew and every child
// started again. Tables that somebody has cut off are loaded again, after every child was ended. If the supervisor itself is
// killed, its children end with it, and the next supervisor removes what it left.
package supervisor
