// Package topologytest lays out the files of machines that tests need and that are elsewhere: sockets, NUMA nodes, offline CPUs,
// control groups, devices.
//
// # Nouns
//
//   - machine: a description below machines/, one line a thing. What is real and where it was published stands in its head.
//   - root: the directory in which Lay writes /proc and /sys of a machine.
//
// # Lines
//
//	online LIST                     CPUs; present LIST too, if more are present
//	package N LIST                  CPUs of a socket
//	siblings N                      CPUs n and n+N share a core
//	siblings adjacent N             N CPUs after each other share a core
//	node N cpus LIST memory MiB free MiB distance D D ...
//	device ADDRESS cuda|tpu node N  an accelerator; N is -1 where the firmware does not tell
//	affinity LIST                   of the process; all online CPUs if it is not given
//	mems LIST                       nodes from which the process may have memory; all if it is not given
//	cpuset v1|v2 LIST               of its control group
//	quota v1|v2 CPUS                of its control group, such as 1.5
//	pool N MiB                      free in the node's pool of reserved huge pages
//	kernel without NUMA             no /sys/devices/system/node
//
// # Invariants
//
//	I1  A line of a test replaces the lines of the machine that begin with the same word.
//	I2  What is written is what the kernel writes: the same paths, the same forms.
//
// # Concurrency
//
// Lay may be called from any test; each has its own root.
//
// # Failure
//
// A line that is not understood ends the test.
package topologytest
