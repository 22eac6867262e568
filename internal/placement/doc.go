// Package placement decides on which processors the processes of a server run and on which NUMA nodes its memory lies. It only
// decides: everything is computed from a topology and from what was asked.
//
// # Nouns
//
//   - request: what a person asked for, and what the server needs.
//   - plan: for each process its CPUs, for tables and slabs their nodes.
//   - pinned: a process that may run on some CPUs only. One that is not pinned runs wherever its supervisor may.
//   - copy: the tables once more, on another node. Without local copies there is one.
//   - device's node: that of the accelerator. It is not known for the simulated one and where several accelerators are on several nodes.
//
// # Rules
//
//	frontends   as many nodes as frontends, or fewer: each frontend on one node, spread by the CPUs of the nodes. Else on all CPUs of the placement.
//	owner       on --owner-cpus; else on the device's node; else on all CPUs of the placement
//	tables      auto: on the node, where one is used and has the room; else interleaved over the used ones
//	slabs       on the device's node; else on the owner's, if that is one; else interleaved over the used ones
//
// With --placement auto on a machine with one node nobody is pinned and no memory is placed.
//
// # Invariants
//
//	I1  A plan uses only CPUs and nodes of the allowance.
//	I2  Each frontend of a plan with local copies reads a copy on the node with memory that is nearest to its own.
//	I3  A request that cannot be fulfilled is an error that names the flag, what it got and what it wants. Make reports all of them.
//	I4  Decisions depend on how much memory nodes have, never on how much is free: a restart decides the same, and finds its tables.
//
// # Concurrency
//
// Functions are pure; a plan is only read.
//
// # Failure
//
// The machine can change after a plan was made. What became of it is looked at in the processes, not here.
package placement
