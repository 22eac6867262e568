// Package predict reads examples from files, has a server score them, and prints the scores. It is the command
// "rankd predict" without its flags.
//
// # Nouns
//
//   - schema: the inputs of a model, taken from a bundle's manifest or asked of the server.
//   - source: a file that is read batch by batch: .npz, JSON lines, Criteo TSV, or safetensors as golden requests are.
//   - batch: consecutive rows of a source as the tensors of one request.
//   - expectation: reference results that a source brings, in arrays called "expect." and the output's name.
//
// # Files
//
//	.npz          arrays named as the inputs, C order, types <i4 <i8 <f4 <f8. A ragged table is NAME.values with NAME.lengths
//	              or NAME.offsets, and optionally NAME.weights. The inputs agree in the number of rows.
//	.jsonl        one object a line: {"dense": [0.5, 1], "user": [17], "clicks": [3, 9]}; an array of ids for each table, an
//	              array of numbers for each dense input; a single number stands for an array of one
//	.tsv          Criteo's click logs: label, 13 integers, 26 hexadecimal ids, tab separated; fields may be empty. It fits a
//	              model with one dense input of width 13 and 26 tables
//	.safetensors  as .npz
//
// # How Criteo's columns become inputs
//
// Feature x of the 13 becomes log(1 + max(x, 0)); an empty one 0. Id x of table t becomes x mod rows(t); an empty one 0.
// A table of hotness h gets the h ids (x + 7919·k) mod rows(t), k = 0 to h-1, so that a bag reads h rows as a real one would; a
// ragged table gets x mod rows(t) alone. The label is checked and not used.
//
// # Invariants
//
//	I1  Scores are printed in the order of the rows in the file, one line a row, whatever order the replies come in.
//	I2  Memory does not grow with a text file: at most Concurrency + 1 batches are held.
//	I3  An error about a file names the file, and the line and column (or the array) with got and want. A refusal that is
//	    about one row names it by its number in the file, from 0, and its line.
//	I4  Scores are compared with reference results only if the server does not say that its device is simulated.
//
// # Concurrency
//
// Run reads in one goroutine, sends from Concurrency others and prints in the caller's.
//
// # Failure
//
// The first error ends the run, after the scores of all rows before it were printed. Refusals that ask for another attempt
// and connections that break are no errors while Retries lasts; see package client. A file without examples is an error.
package predict
