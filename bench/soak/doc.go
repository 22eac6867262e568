// Package soak loads a server at a steady rate for a long time and fits straight lines to what must not grow: rows that wait,
// calls that are open, latency, memory.
//
// # Nouns
//
//   - series: values of one quantity over the time of the run.
//   - fit: the straight line through the means of ten seconds each, by least squares, and the 95 % interval of its slope.
//   - drift: a slope whose interval excludes zero and which, over the run, moves the quantity by more than a tenth of its mean. For memory:
//     and which is more than 10 MiB an hour. What counts there is how much more the processes have than at the start, and its second half
//     tells a leak from a step, such as the buffers that one jam left behind.
//
// # Invariants
//
//	I1  The settling time at the start is in the series but not in the fit.
//	I2  Means of ten seconds are fitted, not single values: neighbouring samples depend on each other and would make slopes look surer
//	    than they are.
//
// # Concurrency
//
// None.
//
// # Failure
//
// A series that is too short for a fit has none, and is not said to be steady.
package soak
