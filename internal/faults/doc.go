// Package faults holds the hooks with which tests slow down, freeze, kill or look into a running rankd. They exist only in a
// binary built with the tag "faults"; in every other build each function is an empty constant that the compiler removes.
//
// # Nouns
//
//   - point: a named place in the code, such as "frontend.pending".
//   - spec: what is to happen where: "[process/]point=action[:argument][@count]", joined by ",".
//     Actions: sleep:DURATION, freeze (stop the goroutine for ever), exit:CODE, kill (SIGKILL to itself), stop (SIGSTOP to
//     itself). "@N" lets the action happen on the N-th visit only; without it, it happens on every visit.
//   - process: whom an item is for: a role ("frontend", "deviceowner", "supervisor"), perhaps an index and an incarnation:
//     "frontend:1" is frontend 1, "deviceowner#2" the second device owner. Without it an item is for every process.
//   - report: what a process says of itself when it is asked: its goroutines and its heap.
//
// # Where the spec comes from
//
// RANKD_FAULTS holds the spec that a process begins with. If RANKD_FAULTS_FILE names a file, a process that gets SIGUSR2
// reads its spec anew from there, forgets the old one with its counts, and then writes a report to the file with its pid
// added to the name ("FILE.PID"). So a test aims at one running process, at a time of its choosing, and knows when the aim
// is taken.
//
// # Invariants
//
//	I1  Without the build tag Enabled is the constant false, and Hit, Become and Am do nothing.
//	I2  A successor of a process that a fault has ended does not inherit what came through the file.
//
// # Failure
//
// A spec that cannot be parsed ends the process at start with the reason: a test that meant to inject a fault must not pass
// without it. One that comes through the file stands in the report instead.
package faults
