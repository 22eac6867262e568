// Package load sends requests to a server and measures how it answers them: as many at once as there are callers (closed loop), or
// at moments that a schedule sets, whatever the server does (open loop).
//
// # Nouns
//
//   - caller: in a closed loop, one that sends its next request when the reply to the last one is there.
//   - schedule: in an open loop, the moments at which requests are due: at a fixed distance, or a Poisson process.
//   - worker: a thread with an event loop, some of the connections, and some of the callers or a part of the schedule.
//   - window: the time that counts, after the warm-up. A request is timed if it was due in the window.
//   - result: everything about one run; its JSON form is described at type Result.
//
// # Invariants
//
//	I1  Latency counts from the moment at which a request was due, not from the one at which it was sent, so a slow server or a slow
//	    client makes it longer and cannot hide by delaying requests (no coordinated omission).
//	I2  A schedule never waits for replies or for connections: a request that is due and cannot be sent has failed.
//	I3  Every reply is compared with what the request must give, or the result says that it was not.
//	I4  Every timed request is counted once: as ok, as refused or failed with its code and reason, as a mismatch, or as without a reply.
//	I5  A run in which this process was the limit says so: more than LimitedShare of its processors, or of the one of its busiest thread.
//
// # Concurrency
//
// Run may be called once at a time in a process: it measures the CPU time of the whole process. A worker shares nothing with the
// others but the collector of seconds, which has a lock and is used once a second.
//
// # Failure
//
// A target that can't be reached or does not speak HTTP/2 at the start is an error. Connections that are lost later are made anew;
// their calls count as failed.
package load
