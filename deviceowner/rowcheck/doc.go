// Package rowcheck shows that a program treats the rows of a batch independently. A server that batches rows of different
// requests, and pads with whatever the memory holds, gives right answers only with such programs.
//
// # Nouns
//
//   - base run: a full batch of random rows in one bucket.
//   - permuted run: the same rows in another order. Their scores must move with them.
//   - padded run: the first half of the rows; the other half is filled with NaN, infinities, random bits (large numbers among
//     them) or zeros. The scores of the first half must not notice.
//   - deviation: |got - want| / max(1, |want|) of a score.
//
// # Invariants
//
//	I1  A program whose scores for a row change by more than Tolerance with the row's place, its neighbours or the padding is
//	    refused with ErrDependent.
//	I2  A check that could not have found anything is an error: scores that do not differ from row to row (ErrConstant), or
//	    that are not finite for ordinary rows (ErrNotFinite).
//
// # Tolerances
//
// Within a bucket most devices give equal bits, and the report says whether they did. They need not: a matrix kernel may
// use another order of additions for the rows of its last tile. So 1e-6 is allowed. From bucket to bucket other kernels run,
// with other orders; 1e-4 is allowed. A device that multiplies in a reduced precision (TPU's bfloat16 passes, TF32) may need
// more than that.
//
// # Concurrency
//
// Run launches one batch at a time and expects to have the executor to itself.
//
// # Failure
//
// If ctx ends while a batch is in flight, Run returns at once and leaves the batch's memory mapped, since the executor
// still owns it.
package rowcheck
