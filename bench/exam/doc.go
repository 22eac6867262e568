// Package exam makes the requests of a measurement and knows the right answer to each of them, so that a server is measured
// and examined in one run. Answers come from the bundle's files by an implementation that shares nothing with the server's lookups.
//
// # Nouns
//
//   - example: one row: ids for every table and dense features, drawn from a seed.
//   - distribution: how ids are drawn: "uniform" over the rows of a table, or "zipf:S" with exponent S over rows in a scattered order.
//   - workload: what the examples of a request have to do with each other: nothing ("independent"), or they are candidates for one user,
//     whose inputs come once a request ("shared-user").
//   - request: an encoded call for some examples, ready to be sent.
//   - expectation: what the score of an example must be: of the simulated accelerator or of the model's network in float64.
//   - mark: the comparison of a reply with the expectations of its request.
//
// # Invariants
//
//	I1  The same manifest, seed, distribution and sizes give the same requests, byte for byte.
//	I2  A reply passes only if it has every output of the model, of the right shape, and every score is within the tolerance.
//	I3  Marking a reply that passes allocates nothing.
//	I4  What is expected of an example does not depend on the form of its request: an input that came once counts as if every row had it.
//
// # Tolerance
//
// Pooled vectors are added up in float64 here and in float32, in some order, by a server, so scores are compared with a
// tolerance: 1e-5 on the simulated accelerator, whose score of another row is within it by a chance of 2e-5; 2e-3 of the score's own
// size and 1e-4 absolute for a real network. Where pooled vectors travel as bfloat16 a sum that lies between two of its values
// may be rounded to either; the simulated accelerator's score then moves by up to 2e-2, which is the tolerance for such models
// (the score of another row is within it by a chance of 4e-2). The largest difference that was seen is reported.
//
// # Concurrency
//
// A Set does not change once made and may be used by any number of goroutines.
//
// # Failure
//
// A model that no expectation can be computed for is an error at the start. A reply that does not pass is described in words.
package exam
