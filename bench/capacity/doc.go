// Package capacity finds the rate of requests that a server can be offered without breaking a promise: capacity within an
// objective is the highest offered rate at which every repeat answered every timed request rightly and within the objective.
//
// # Nouns
//
//   - objective: the latest that a reply may come after its request was due.
//   - point: a rate and its runs. All runs are on a fixed schedule that does not wait for replies; a request without a reply when the
//     drain period has ended has failed.
//   - verdict: passed, failed, or not judged because the client was the limit.
//   - grid: rates that double until two in a row fail, then geometric means between the highest that passed and the next one until they
//     are close enough. A lower rate that failed was disturbed by the machine; it is listed with the others.
//
// # Invariants
//
//	I1  A rate has passed only if all its repeats have; the first repeat that fails decides.
//	I2  A run in which the client was the limit decides nothing: it is made again once, and then the search goes no higher.
//	I3  Runs serve every objective: what is known of a rate is not measured again.
//
// # Concurrency
//
// A Search belongs to one goroutine.
//
// # Failure
//
// An error of a run ends the search; what was measured so far stays in it. A wrong reply is such an error.
package capacity
