// Package doctor looks whether a machine can run a server: pages, memory, limits, control groups, the kernel, ports. For each
// thing it says what is right, what to change, and the command that changes it.
//
// # Nouns
//
//   - need: what a server with a given configuration and model asks of the machine.
//   - machine: where the answers come from. Files of /proc and /sys lie below a root, and what asks the kernel is a function, so
//     that tests can put another machine in their place.
//   - finding: one answer. Its state is ok, warn (a server runs, but worse or at a risk) or fail (it does not start).
//   - report: findings in order, as a table for people or as JSON.
//
// # Invariants
//
//	I1  Looking changes nothing: no file, no setting, no port is held when a check returns.
//	I2  A finding that is not ok says what to change; where one command does it, it is there in full, with the numbers that are needed.
//	I3  What can't be read is not taken for right: it is a warning that names the file.
//	I4  Numbers are those of the need. Without a model, findings say that its size is not known.
//	I5  Limits are those of the server's process where one runs, else those of this one, and the findings say whose.
//
// # Concurrency
//
// Checks run one after the other in one goroutine.
//
// # Failure
//
// A check that fails itself becomes a finding. A process killed in the middle leaves nothing behind: probes use nameless memory and
// sockets that nobody listens on.
package doctor
