// Package e2e tests rankd from outside: it builds the command, starts whole servers with real processes on loopback ports,
// drives them through gRPC with the generated stubs, and kills, freezes and overloads their parts. Nothing of it runs inside
// the test process; what a score must be is computed here, from the tables on disk, independently of the lookup code.
//
// # Nouns
//
//   - server: one supervisor and its children, with a run directory, an instance name and free ports of its own.
//   - exam: a set of example rows of a model, each with the one score that is right for it.
//   - lane: one client connection of which it is known which frontend has it.
//   - aim: to tell one running process what is to happen to it at a named point, in a build with fault hooks.
//   - traces: what a server at rest holds: descriptors, mappings, goroutines, files. They must not grow, whatever happened.
//   - load: callers that send random pieces of the exam over lanes and mark every reply.
//
// # Invariants
//
//	I1  Every reply with status OK is marked row by row, bit by bit; a single wrong score fails the test.
//	I2  A test signals only processes that its own server's state file lists, with the start time that stands there.
//	I3  A server that a test started is stopped with SIGTERM at its end and must then have exited with 0, after a ring that
//	    was sound, and leave no process, no file of its instance and no mount.
//	I4  Random choices come from one seed, which is printed when a test fails.
//
// # Sizes
//
// The sizes that run by default take about four minutes on two cores. Larger ones are chosen by environment variables:
//
//	RANKD_E2E_REQUESTS       requests of the concurrent routing test on the simulated accelerator (3000; a full run: 100000)
//	RANKD_E2E_PJRT_REQUESTS  the same on the CPU plugin (200; a full run: 2000)
//	RANKD_E2E_KILLS          how often each kind of process is killed under load (3; a full run: 100)
//	RANKD_E2E_MATRIX         full: every process at every sync point on every occasion, instead of about 40 of those trials
//	RANKD_E2E_CANCELS        calls that are cancelled just after sending, and as many near completion (1000; a full run: 10000)
//	RANKD_E2E_LONE           requests that each find the server asleep or about to be (5000; a full run: 1000000)
//	RANKD_E2E_SEED           seed of all random choices (default: another one each time)
//	RANKD_REQUIRE_PLUGIN     if set, a missing CPU plugin fails the tests that need it instead of skipping them
//
// go test -short leaves out what needs more than a few seconds.
//
// # Concurrency
//
// Tests run one after the other: what they measure, such as whether small calls starve, would not hold beside each other.
//
// # Failure
//
// A test that fails prints the end of its server's log. Servers are started from a thread that lives as long as the test
// process and die with it, also when that is killed. Only a test process that is killed leaves files in shared memory and,
// in the tests of a full tmpfs, a mount below its temporary directory.
package e2e
