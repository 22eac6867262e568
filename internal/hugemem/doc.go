// Package hugemem obtains memory that several processes share, on the best pages that the machine gives, and says which
// pages those really are. Everything is allocated before Create returns: a page that is missing is an error then, never a
// SIGBUS later.
//
// # Nouns
//
//   - file: what is shared, a tmpfs or hugetlbfs file or a memfd. Named files outlive the process and are found again.
//   - mapping: a file in this process's address space, at an address where 2 MiB pages are possible.
//   - mode: a way to get pages, in order of preference: HugeTmpfs, Hugetlb, Collapse, Small.
//   - room: how many bytes a place can still give, the least of what its filesystem, the cgroups and the machine say.
//   - coverage: how much of a mapping lies on huge pages, read back from the kernel.
//
// # Modes
//
//	huge-tmpfs  a tmpfs mounted with huge=always (or within_size): nothing to reserve, full 2 MiB mappings from the first touch
//	hugetlb     pages of the reserved pool: a hugetlbfs mount for named files, a memfd for nameless ones
//	collapse    an ordinary tmpfs file or memfd whose allocated pages are merged with MADV_COLLAPSE; needs no privilege
//	4k          what is left
//
// Observed on Linux 6.18, where /sys/kernel/mm/transparent_hugepage/shmem_enabled stood at never:
//
//   - MADV_COLLAPSE on an allocated memfd or /dev/shm file gave a complete huge mapping. On a hole it fails with EINVAL, so
//     the file is allocated first. A last part shorter than 2 MiB stays on small pages, so sizes are rounded up to 2 MiB.
//   - On a tmpfs with huge=always, MADV_COLLAPSE on pages that were allocated with fallocate and never touched loses data:
//     the next reader finds them not yet cleared and clears them, with whatever was written through the mapping in between.
//     Touching them first (MADV_POPULATE_WRITE) is enough. TestModes shows the loss if the order is changed.
//   - A second process that maps the same file at an aligned address gets huge mappings by touching it (MADV_POPULATE_READ);
//     it needs no MADV_COLLAPSE of its own. At an unaligned address it gets small ones.
//   - A plain mmap whose length is a multiple of 2 MiB comes back aligned. Older kernels do not do that. So Map asks mmap-go
//     first and, only where the address is not aligned, maps again over an aligned reservation: mmap-go takes no address.
//
// # Nodes
//
// Whoever allocates a page of a file decides on its NUMA node, whatever the readers do later. So Create sets the policy of its
// thread while it allocates: a preference, not a bound, since a bound on a full node wakes the OOM killer. Memory on several nodes takes
// turns of one huge page. By the kernel's own interleaving the small pages of a huge one lie on all the nodes, and MADV_COLLAPSE
// then takes one of these for the whole.
//
// # Invariants
//
//	I1  When Create returns, every byte of the file is allocated and mapped; reading or writing it needs no new page.
//	I2  A file never shrinks while this package holds it; a memfd is sealed against shrinking and growing.
//	I3  Coverage reports what smaps says about exactly this mapping, whatever was asked for.
//	I4  Pages are touched before they are merged.
//	I5  A Create that fails leaves no file behind.
//	I6  Pages that are to lie on several nodes take turns of one huge page, so that merging never has to move one.
//
// # Concurrency
//
// Create and Map may be called from any goroutine; one File or Mapping belongs to one owner at a time. The bytes themselves
// are shared with other processes and it is their users who order the accesses.
//
// # Failure
//
// A process that is killed inside Create leaves at most a named file of zeros, which its owner must recognise and remove;
// nameless memory goes with the last process that holds it.
package hugemem
