// Package testutil holds what the tests of several packages need: a check that a package's tests leave nothing behind, the
// rankd binary, a free port, and waiting for a condition without sleeping blindly.
//
// # Nouns
//
//   - leak: a goroutine, descriptor, rankd mapping, file in /dev/shm, or child process that exists after the tests and did
//     not exist before.
//
// # Invariants
//
//	I1  Main fails a test binary whose tests passed but leaked, and says what was leaked.
//	I2  Files of other test processes running at the same time are not counted: only names given by this process are.
//
// # Concurrency
//
// All helpers may be used from parallel tests.
//
// # Failure
//
// A helper that cannot do its job fails the test; it never skips.
package testutil
