// Package tables holds embedding tables in one shared read-only segment: it loads them from a bundle once, lets any number
// of processes map them, and pools the rows that a request names straight into the packed rows of a batch.
//
// # Nouns
//
//   - segment: the file with all tables of one model version, named rankd.<instance>.tables.<first 16 digits of its digest>.
//   - copy: a segment on NUMA nodes of its own, with their label at the end of its name. Usually there is one, anywhere and without a label.
//   - bag: the ids that one row of a request has for one table. Its rows are pooled into one vector.
//   - broadcast bag: one that serves every row of a request, such as a user's beside many candidates.
//   - plan: the resolved bags of some rows: where each table row lies and what it is multiplied by.
//   - shared: the pooled vectors of a request's broadcast bags, to be copied into its rows.
//   - sweep: one pass of the kernel over the bags of a plan, all tables and several rows.
//   - kernel: the loop that reads table rows and adds them up. The portable one in kernel_generic.go is the specification; the
//     others are made of tiles, functions in assembly that pool some cache lines of some bags (kernel_tiles_unsafe.go, written by
//     the module kernelgen).
//   - policy: what becomes of an id outside [0, rows). Ids inside are never changed.
//
// # Invariants
//
//	I1  A segment whose magic is set is complete: every other byte was final before, and its files had the manifest's digests.
//	I2  A segment that is not complete is never looked up in; it is removed by the next start of its instance.
//	I3  Only files of the own instance are removed, and none that another process still holds.
//	I4  An address in a plan is that of a row of its table or of the zero row, whatever bytes the ids were.
//	I5  After Validate has accepted bags, Pool, Resolve and Sweep neither panic nor read or write outside the tables and dst.
//	I6  Sweep gives bit for bit what the portable kernel gives: additions in float32, in the order of the ids, from +0.
//	I7  A bag that needs no multiplication (sum without weights) has none.
//	I8  Pool, Resolve and Sweep do not allocate once a plan has grown to its largest request.
//	I9  Every policy and combiner of package model is known here, and every policy has a rule, or Attach does not return a Set.
//	I10 Only Pool reads the table rows of a broadcast bag: a request reads them once, however many chunks it is looked up in.
//
// # Layout
//
// Segment layout, version 2. Little-endian. Offsets in bytes from the start of the file. The loader writes everything, the
// others only read.
//
//	offset   size  field        ordering
//	0x000       8  magic        SYNC(ready): stored last, loaded first
//	0x008       4  checksum     CRC-32C of the bytes from version to the end of the names
//	0x00c       4  version
//	0x010       8  fileBytes    size of the file
//	0x018       8  zeroOffset   a row of zeros, as long as the longest row
//	0x020       8  dataOffset   the first table
//	0x028       4  tableCount
//	0x02c       4  namesBytes   total length of the names
//	0x030      32  digest       Manifest.TablesDigest
//	0x050      48  (zero)
//	0x080   n*128  descriptors, one a table
//	               names, one after the other
//	               zero row, 64-byte aligned
//	               tables, 64-byte aligned, in the order of the manifest; rows padded with zeros to a multiple of 64 bytes, those of
//	               int8 to a multiple of 8; 64 bytes at least behind the last one, which kernels may read
//
// A descriptor:
//
//	0x00  8  offset      of the table's first row
//	0x08  8  rows
//	0x10  4  stride      bytes from one row to the next
//	0x14  4  dim         elements a row
//	0x18  4  dtype       of an element
//	0x1c  4  nameBytes
//	0x20 96  (zero)
//
// # Pooling
//
// With rows x1..xn, in the order of the ids, and weights w1..wn:
//
//	          without weights    with weights
//	sum       Σ x                Σ w·x
//	mean      Σ x / n            Σ w·x / Σ w
//	sqrtn     Σ x / √n           Σ w·x / √(Σ w²)
//
// The formulas are those of tf.nn.embedding_lookup_sparse (and of safe_embedding_lookup_sparse on top of it); without weights
// sum and mean, and weighted sum, are also torch.nn.EmbeddingBag's (per_sample_weights). As there, an empty bag gives zeros,
// and so does a divisor of zero. Unlike safe_embedding_lookup_sparse nothing is dropped: a weight of zero or below counts, and
// an id outside the table falls under its policy. The divisor is computed in float64 and its reciprocal rounded once to
// float32; the sum is multiplied by it at the end. A product w·x is rounded before it is added: no fused multiply-add.
//
// # Row types
//
// float16 and bfloat16 elements are widened exactly. A row of int8 is dim bytes q, then scale and bias in float32, x = scale·q + bias
// (FBGEMM's fused 8-bit row): the kernels add round(s·q), with s = round(w·scale), and the sum of all round(w·bias) once at the end.
//
// # Pooled vectors
//
// They are float32, or bfloat16 where the slot lies in a packed array of that type: summed in float32 as above, then rounded once, to
// the nearest, ties to even.
//
// # Policies
//
// reject refuses the request. clamp reads the nearest valid row. zero reads a row of zeros, which still counts in n. hash-mod
// takes the id for a hash and reads row id mod rows, the remainder that is not negative (Python's %): of a table of 10 rows
// -1 reads row 9 and 23 reads row 3. Nothing else is hashed, so a client can compute the same row.
//
// # Concurrency
//
// A Set may be used from any number of goroutines at once, each with its own Plan. A Shared is filled by one and then read by any. A segment is loaded by one process; an
// exclusive flock marks that, and a shared one marks that it is in use. Descriptors that are passed to children carry it along.
//
// # Failure
//
// A loader killed at any point leaves a file without its magic. A process killed during a lookup has changed nothing. A file
// that is cut off from outside while it is mapped raises SIGBUS in its readers; their successors find the size wrong.
package tables
