// Package cgroup finds the cgroups whose limits hold for a process: its own and all above it, in version 1 and 2 and where
// both are mounted.
//
// # Nouns
//
//   - level: one cgroup on the way from the process's up to the mount.
//
// # Invariants
//
//	I1  Levels come from the process's cgroup upwards, and end with the mount: what lies above a container's is not to be seen.
//
// # Concurrency
//
// Everything may be called from any goroutine.
//
// # Failure
//
// Without procfs, or where no cgroup is mounted, there are no levels: no limit can be read.
package cgroup
