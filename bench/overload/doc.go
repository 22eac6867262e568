// Package overload puts more on a server than it can do, on purpose, and records what it refuses, what it holds meanwhile, and
// whether it is as before afterwards.
//
// # Nouns
//
//   - scenario: settings of a server, a load that is too much for them, and what came of it.
//   - slow reader: a client that sends requests and takes the replies at a small rate of its own: it grants each reply its flow-control
//     window late.
//   - bystander: the ordinary load beside slow readers, which should not notice them.
//   - recovery: a light load afterwards, of which nothing may be lost.
//
// # Invariants
//
//	I1  Every reply that comes is compared with the reference, in overload too.
//	I2  A scenario reports every request: answered, refused by name, or without a reply.
//
// # Concurrency
//
// Each slow reader is two goroutines; the ordinary load runs beside them as it does alone.
//
// # Failure
//
// A slow reader whose connection the server ends counts that and does not come back.
package overload
