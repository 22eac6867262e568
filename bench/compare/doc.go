// Package compare tells whether one build of a server is faster than another on the same machine, and how sure that is.
//
// # Nouns
//
//   - round: one run of the old build, one of the new, and another one of the old, in an order that changes from round to round.
//   - ratio: new to old of one metric within one round. What the machine did meanwhile, it did to both.
//   - floor: the same ratio of the old build to itself. A difference that is no larger than what the floor shows is not claimed.
//   - interval: 95 % of the bootstrap distribution of the mean of the logarithms of the ratios.
//
// # Invariants
//
//	I1  Every round holds all three runs or is not used.
//	I2  The same ratios give the same interval: the bootstrap has a fixed seed.
//	I3  A difference is claimed only if its interval excludes "no difference" and its size is beyond both ends of the floor's interval.
//	I4  With fewer than MinRounds rounds nothing is claimed.
//
// # Concurrency
//
// Everything belongs to one goroutine.
//
// # Failure
//
// An error of a run ends the comparison; the rounds before it are kept.
package compare
