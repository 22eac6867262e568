// Package reference computes the scores of a model in float64, one example at a time, straight from the bundle's files. It is
// what everything faster is compared with: it shares no lookup, pooling or network code with the rest of the module.
//
// # Nouns
//
//   - example: one row of a request: a bag of ids per table, and dense features.
//   - lookup: the tables of a bundle; it pools a bag into a vector of float64.
//   - network: the dense part, a function of the pooled vectors and dense features of one example. DCNv2 and Readout are
//     the two networks that the module can build by itself.
//
// # Invariants
//
//	I1  Weights and rows are float32 as stored; every operation on them is float64 and in the order of the definition.
//	I2  Examples do not influence each other.
//	I3  An id that its table's policy refuses is an error, never a guess.
//
// # Concurrency
//
// Lookups and networks are read-only after they are opened and may be used from any number of goroutines.
//
// # Failure
//
// Errors name the table, the position in the bag and the id, or the weight that is missing or has the wrong shape.
package reference
