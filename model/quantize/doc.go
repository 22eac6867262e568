// Package quantize makes a bundle with narrower table rows out of another one, and says what that costs.
//
// # Nouns
//
//   - row type: float32, float16, bfloat16 or int8; package model has their bytes (RowDTypes).
//   - report: how far the elements of each table, and the scores of the golden requests, are from those of the original.
//
// # Invariants
//
//	I1  The original is only read. The new bundle appears whole or not at all.
//	I2  An element becomes the nearest value of float16 or bfloat16, the even one of two. One that float16 cannot hold is an error.
//	I3  A row of int8 has bias = its least element and scale = (greatest - least) / 255 in float32; an element becomes the q whose
//	    scale*q + bias is nearest. An element that is not finite is an error; float16 and bfloat16 keep it.
//	I4  The golden requests stay the same. Their scores are those of the new bundle, so that a server of it can be checked with them.
//
// # Layout
//
// rows.go: one row. quantize.go: the bundle. report.go: what it costs.
//
// # Failure
//
// Errors name the table and the row. What was written is removed. A table whose rows would not get fewer bytes stays as it is, and
// is an error if it was asked for by name, or if no table gets fewer.
package quantize
