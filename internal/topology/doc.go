// Package topology reads which processors and memory nodes a machine has, which of them a process may use, and on which node an
// accelerator is. Everything comes from files of /proc and /sys, which may lie below another root.
//
// # Nouns
//
//   - set: numbers of CPUs or of nodes, in ascending order. As text it is the kernel's list, "0-3,8".
//   - CPU: what the kernel schedules on. CPUs of one core are siblings; cores lie in a package, which is a socket.
//   - node: a NUMA node: CPUs and memory that are close to each other. It may lack either.
//   - allowance: what a process may use: its affinity, its cpuset, and the share of time that control groups leave.
//   - accelerator: a PCI device on which a plugin executes.
//
// # Invariants
//
//	I1  ParseList(s.String()) gives s, and what ParseList takes is ascending and without repeats.
//	I2  Offline CPUs are in no node and no core of a machine: nothing can run there.
//	I3  A machine has at least one node, and every online CPU is in exactly one: without NUMA in the kernel all are in node 0.
//	I4  An allowance has only CPUs that are online, in the affinity and in the cpuset; none of these three is empty on a running system.
//
// # Concurrency
//
// Everything may be called from any goroutine. What is read is a picture of one moment: CPUs go offline and cpusets change.
//
// # Failure
//
// Without /proc or /sys reading is an error that names the file. What only some kernels and machines have (distances, siblings,
// cpusets, quotas) is left empty where it is missing.
package topology
