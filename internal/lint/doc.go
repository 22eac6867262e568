// Package lint checks the source of this module against the rules that hold for all of it. The rules are plain functions
// and run as a Go test, so that they need no network and no tool that is not pinned in go.mod.
//
// # Nouns
//
//   - module: the files below one directory, read and parsed once.
//   - rule: a name and a function from a module to findings.
//   - finding: a place and a message; the message says how to mend it.
//   - import table: which of our packages, and which foreign ones, a package may import.
//
// # Invariants
//
//	I1  Every rule has an example under testdata that it refuses and one that it accepts.
//	I2  A rule looks only at the module that it is given, never at this package's own examples.
//
// # Failure
//
// A file that does not parse is a finding. A pinned tool that cannot run is an error, never a skipped rule.
package lint
