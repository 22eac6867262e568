// Package model reads, checks and writes a model bundle: the directory that holds everything rankd needs to know about one
// version of one model. It knows files and numbers; it starts no process, opens no device and maps no shared memory.
//
// # Nouns
//
//   - bundle: the directory. manifest.json describes it, the other files hold its numbers and programs.
//   - manifest: what the tables, inputs, outputs and programs are called, how large they are and where their files lie.
//   - packed row: the form in which one example goes to the device. Pooled vectors and dense features have a slot in it.
//   - program: the dense network as StableHLO, compiled once a bucket (a batch size).
//   - tensors: a safetensors file, the one container for every array of a bundle.
//   - golden: example requests with the scores that an independent implementation gave for them.
//
// # Invariants
//
//	I1  A Manifest that Validate accepts can be used without further checks: every slot lies inside its row, no two slots
//	    overlap, every index is in range, every product of sizes fits in an int64, every path stays inside the bundle.
//	I2  A manifest is read strictly: an unknown, repeated, misspelt or missing field is an error that names it.
//	I3  A bundle appears under its final name whole or not at all; its manifest is the last file that is written.
//	I4  Digests holds the SHA-256 of every file of the bundle but the manifest and what is in ExecutablesDir.
//	I5  A tensor that Tensors hands out lies inside the file and is exactly as long as its shape and element type say.
//
// # Layout
//
//	manifest.json               see Manifest
//	tables/t00.safetensors      one tensor [rows, dim] a table (the names are free, the manifest has them)
//	weights.safetensors         the dense weights, the first parameters of the program
//	programs/model.mlir         StableHLO text in which BatchToken stands for the batch size, or one file a bucket
//	golden/golden.safetensors   one tensor per input, named as clients name it, and "expect.<output>" per output
//	executables/                compiled programs, added later; package deviceowner/pjrt/execache reads and writes them
//
// A safetensors file is: header length N (uint64, little-endian), N bytes of JSON that give each tensor's dtype, shape and
// place, then the data without gaps, little-endian, row-major.
//
// # Concurrency
//
// A Bundle, a Manifest and a Tensors may be read from any number of goroutines. A Writer belongs to one goroutine, but its
// methods that add files may be called from several.
//
// # Failure
//
// Files of a bundle are untrusted input: whatever they hold, reading them ends in an error and never in a panic. Bytes of an
// open Tensors alias a read-only mapping; a file that is shortened while it is mapped raises SIGBUS, as with any mapping, so a
// bundle must be replaced (a new directory, a rename), never edited in place. A process that is killed while it writes a
// bundle leaves a hidden temporary directory beside it and no bundle.
package model
