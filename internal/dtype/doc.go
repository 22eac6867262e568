// Package dtype names the element types of tensors: how wide they are, what the protocols call them, and how a value of
// one is read as a float32. It is shared by the wire formats, the model bundle, the tables and the programs.
//
// # Nouns
//
//   - DType: an element type, a small integer that is stored in shared memory and in files, so its values never change.
//   - name: the lower-case name used in manifests, flags and messages ("float32").
//
// # Invariants
//
//	I1  The numeric value of a DType never changes meaning (it is written into segments).
//	I2  Size is exact for every DType but Invalid; all of them are little-endian on every wire and in every file.
//
// # Failure
//
// Parse returns an error that lists the known names; no function panics on a foreign value.
package dtype
