// Package faults holds the hooks with which tests slow down, freeze or count what a running rankd does. They exist only
// in a binary built with the tag "faults"; in every other build each function is an empty constant that the compiler removes.
//
// # Nouns
//
//   - point: a named place in the code, such as "frontend.reserved".
//   - spec: the environment variable RANKD_FAULTS, "point=action[:argument][@count]" joined by ",".
//     Actions: sleep:DURATION, freeze (stop until killed), exit:CODE, kill (SIGKILL to itself), stop (SIGSTOP to itself).
//     "@N" lets the action happen on the N-th visit only; without it, it happens on every visit.
//
// # Invariants
//
//	I1  Without the build tag Enabled is the constant false and Hit does nothing.
//
// # Failure
//
// A spec that cannot be parsed ends the process at start with the reason: a test that meant to inject a fault must not pass without it.
package faults
