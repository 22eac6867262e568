// Package suite compares servers: it starts one after the other on the same processors with the same model, checks its answers,
// loads it at every point of a plan, stops it, and keeps what was measured so that an interrupted comparison can go on.
//
// # Nouns
//
//   - arm: a server of the comparison, such as "rankd" or "py-mp-batch".
//   - variant: an arm with a number of processes and threads. Where an arm has several, all are swept briefly; each number of examples
//     a request is then measured with the variant that was best at it.
//   - workload: what the examples of a request have to do with each other, see package exam; one for the whole comparison.
//   - bundle: the model that an arm serves: the same for all of them, but for arms whose rows are of a narrower type.
//   - point: a load (callers, or a share of the arm's own peak) with a number of examples a request.
//   - session: a variant from its start to its end, with the points that are measured meanwhile.
//   - plan: all sessions in their order. Arms are interleaved: every repeat goes through all of them, beginning with another one.
//   - configuration: everything that was set for a result, as a digest that is kept beside it.
//
// # Invariants
//
//	I1  An arm is measured only after replies to requests of every size were compared with the reference; one that fails is not measured.
//	I2  A result is kept and not measured again exactly as long as its configuration has the same digest.
//	I3  Rates of an open loop are shares of the arm's own peak, the same in every repeat.
//	I4  No two servers run at the same time.
//	I5  An arm that could not be measured is in the report, with the reason.
//	I6  Reading exact memory disturbs a server, so it is read outside of all points, under a load of its own.
//	I7  A folder has results of one configuration only. A run of another one is refused before it makes anything; a run of the same one
//	    may add arms and repeats.
//
// # Concurrency
//
// A comparison runs on one goroutine, pinned to the client's processors; servers run on theirs. Two comparisons at once are refused, see
// Lock.
//
// # Failure
//
// A server that does not start, dies, or gives a wrong answer ends its arm; the others go on and the comparison ends with an error.
// Results are written after every point. A signal stops the server that runs; the same command goes on from there.
package suite
