// Package demo makes model bundles out of a seed: a DLRM-DCNv2 of the size of the public Criteo click logs, for trials and
// measurements, and small models whose scores show which rows were read, for tests. No training and no other tool is needed.
//
// # Nouns
//
//   - stream: random numbers addressed by position, so that any row of any table can be made by itself and in any order.
//   - architecture: the widths of a DLRM-DCNv2. The full one is the one of the MLPerf benchmark; the small one has the same
//     tables, inputs and packed row, and a network that compiles and runs in milliseconds.
//   - test model: tables whose row r of table t is filled with 10000·t + r, and a network that is one known matrix.
//
// # Invariants
//
//	I1  Equal options give equal bytes, whatever the number of cores. (The scores of the golden requests are computed in
//	    float64 and may differ in their last bit between processor architectures; everything else does not.)
//	I2  Tables are streamed: the memory needed does not grow with their rows.
//	I3  Scores of the DLRM-DCNv2 are spread over (0, 1): a mistake in any input moves them visibly.
//
// # Layout
//
// The packed row of the DLRM-DCNv2 has 3344 float32: 26 pooled vectors of 128 at byte 512·t, 13 dense features at byte
// 13312, and padding to a stride of 13376 bytes. See the package model for the files.
//
// # Concurrency
//
// Create and CreateTest use all cores and may run side by side for different directories.
//
// # Failure
//
// A bundle appears whole or not at all. An error or a canceled context removes what was written; SIGKILL leaves a hidden
// temporary directory beside the bundle's place.
package demo
