// Package ablation says where the speed comes from: it measures a server with one thing changed at a time.
//
// # Nouns
//
//   - table: settings that are compared, the first of which is the base.
//   - setting: flags of the server, or something about the machine that it is started with.
//   - row: what one setting did at one load.
//
// # Invariants
//
//	I1  Settings of a table are measured in turn, round after round, beginning with another one each time.
//	I2  What a server really got (huge pages, for one) is recorded as it says it, not as it was asked for.
//
// # Concurrency
//
// None.
//
// # Failure
//
// A setting that a server refuses is in the table with its error; the others go on.
package ablation
