// Package monitor watches what the processes of a server cost: CPU seconds and resident memory of each of them a few times a
// second, and their exact memory when it is asked for.
//
// # Nouns
//
//   - tree: a process and all its descendants.
//   - sample: CPU seconds and resident bytes of every process of a tree at one moment.
//   - memory: the sum of the proportional set sizes of a tree, and its hugetlb pages, which are in no such size, counted once.
//
// # Invariants
//
//	I1  CPU seconds of a tree never decrease while its root lives: what processes that have ended had used is kept.
//	I2  Memory is read only when it is asked for: it walks page tables, which slows down a server with 4 KiB pages.
//
// # Concurrency
//
// A Monitor samples on a goroutine of its own until Stop; its methods may be called from any goroutine. A Tree belongs to one goroutine.
//
// # Failure
//
// A process that ends while it is looked at is left out. A root that is gone is an error.
package monitor
