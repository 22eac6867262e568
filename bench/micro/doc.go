// Command micro runs the benchmarks of parts, each beside its baseline, and writes what they say as JSON and as a table.
//
// # Nouns
//
//   - part: Go benchmarks of one package, run as one test binary.
//   - figure: one unit of one benchmark, once for each repeat; its median is quoted.
//   - comparison: a row of the table: a figure, and the figures that it is compared with.
//
// # Invariants
//
//	I1  A figure and its baselines come from the same run of this command, on the same processor, in turns over the repeats.
//	I2  Nothing is claimed of a figure that is missing: its place in the table is a dash.
//
// # Layout
//
// main.go: flags and the order of things. parts.go: the Go benchmarks. python.go: NumPy, torch and FBGEMM. table.go: comparisons.
//
// # Failure
//
// A part that fails ends the run; the figures so far are not written.
package main
