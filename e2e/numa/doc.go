// Package numa tests placement on a machine with two NUMA nodes, which is emulated: qemu boots a Linux kernel whose first process is
// this package's own test binary. There it starts whole servers and asks the kernel where their processes and pages are.
//
// # Nouns
//
//   - host: the test process that was started with go test. It packs, boots, and reads what the guest prints.
//   - guest: the same binary as process 1 of the emulated machine. Its tests are the ones named TestGuest...
//
// # Invariants
//
//	I1  The host's test passes only if every test of the guest ran there and passed.
//	I2  What a guest test wants is compared with numa_maps and the affinity of every process, never with what the server says alone.
//
// # Run
//
// "make numa" installs nothing: it unpacks a kernel of the distribution below the build directory and needs the package
// qemu-system-x86. RANKD_NUMA_KERNEL is the kernel's file, RANKD_BIN the command. Without them the host's test skips. RANKD_NUMA_RUN chooses
// some of the guest's tests by a regular expression. It takes minutes: every
// instruction is emulated.
//
// # Concurrency
//
// One guest, and in it one server after the other.
//
// # Failure
//
// The guest has no disk and no network; it ends with the test process. Its whole output is printed when a test fails.
package numa
