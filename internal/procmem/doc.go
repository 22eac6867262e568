// Package procmem reads what the kernel says about the memory of a process: its mappings, how many pages of each are
// there, how many of them are huge, and which share of a page that several processes map is this one's.
//
// # Nouns
//
//   - mapping: one line of /proc/PID/smaps with its figures, in bytes.
//   - PSS: the pages of a mapping, each divided by the number of processes that map it. Summed over all of them a page
//     counts once. hugetlb pages are not in it.
//
// # Invariants
//
//	I1  All figures are bytes.
//
// # Concurrency
//
// Everything may be called from any goroutine. Reading smaps walks the page tables of the process: it is for inspection,
// not for a timer.
//
// # Failure
//
// A process that is gone, or that this user may not look at, is an error that names it.
package procmem
