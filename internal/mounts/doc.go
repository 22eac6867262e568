// Package mounts reads what is mounted where, as this process sees it.
//
// # Nouns
//
//   - mount: one line of /proc/self/mountinfo.
//
// # Invariants
//
//	I1  Mounts come in the order of the kernel. One that a later one hides stays in the list: opening a file there is what decides.
//
// # Concurrency
//
// Everything may be called from any goroutine.
//
// # Failure
//
// Without procfs reading is an error; a line that is not understood is passed over.
package mounts
