// Package stats is the page of counters that all processes of one server share. It outlives each child, so what a dead
// child has counted stays counted and its successor goes on adding; the supervisor and the inspector only read.
//
// # Nouns
//
//   - page: one memfd, a header and a block for each writer.
//   - block: the words of one writer process: a frontend (up to MaxFrontends), the device owner, or the supervisor.
//   - program: a compiled batch size, and its source: the compiler, the cache, or the bundle.
//   - counter: a number that only grows. Some stand in families: requests by API and outcome, launches by bucket.
//   - gauge: a present amount, such as rows pending. It dies with its process.
//   - histogram: counts by size, four buckets to each doubling, with the sum of what was observed.
//
// # Invariants
//
//	I1  One process at a time writes a block. While its process is dead the block belongs to the supervisor, which clears the gauges.
//	I2  Counters and histogram buckets never decrease, whatever dies; so neither does their sum over blocks.
//	I3  The layout is fixed: an attacher refuses a page whose magic, version or geometry is not its own.
//	I4  No word of one block shares a 128-byte line with a word of another.
//	I5  The number of exported series is bounded by the constants of this package and the number of frontends.
//
// # Layout
//
// Little-endian, version 2. Block b starts at 0x80 + b*0x3380; frontends come first, then the owner, then the supervisor.
//
//	offset  size   field          writer   readers  ordering
//	0x000       8  magic          creator  all      SYNC(stats-ready): stored last, loaded first
//	0x008       4  version        creator  all      plain, before magic
//	0x00c       4  blockBytes     creator  all      plain, before magic
//	0x010       4  blockCount     creator  all      plain, before magic
//	0x080          blocks
//
// Within a block:
//
//	0x0000  0x500  counters [160]u64
//	0x0500  0x080  gauges   [16]i64
//	0x0580  0x080  bucketRows [32]u32, rows of each compiled batch size
//	0x0600  0x080  bucketSources [32]u32, where the program of each came from
//	0x0680  0x100  launches [32]u64
//	0x0780 0x2c00  histograms [8] of 0x580: sum u64, padding to a line, [160]u64
//
// # Concurrency
//
// Words are independent atomics: threads of the writing process may add at the same time. A reader sees each word whole
// but not all words of one instant.
//
// # Failure
//
// A writer killed between two words leaves totals that differ by the one event it was recording. Nothing waits on this
// page, so nothing can hang on it. The memfd is sealed against shrinking, so reading it cannot fault.
package stats
