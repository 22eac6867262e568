// Command rankd serves ranking models. This package is wiring only: it reads flags and connects the packages that do the work.
//
// # Nouns
//
//   - serve: the supervisor and, as its children, the roles frontend and deviceowner, which are sub-commands of the same binary.
//   - tools: model, predict and inspect; they run by themselves and never touch a server but through its public ends.
//   - config and doctor: they take the flags of serve and say what serve would do with them, without doing it.
//   - golden files: testdata/help has what help says, testdata/errors what the command answers to likely mistakes. They are
//     written by "make golden" and read in review.
//
// # Invariants
//
//	I1  The roles get their whole configuration as flags and their descriptors by number; they read no environment and no file.
//	I2  Exit codes are those of internal/config for every command.
//
// # Layout
//
// One file a command: serve.go, roles.go, config.go, doctor.go, model.go, predict.go, inspect.go; root.go is what all share, help.go
// the form of help, usage.go what is said of mistakes.
//
// # Failure
//
// An error is printed once, as "rankd: verb object: cause", and ends the process with the exit code that belongs to it.
package main
