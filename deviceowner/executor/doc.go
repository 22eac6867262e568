// Package executor is the contract between the loop that forms batches and whatever runs them: the pjrt and sim packages
// implement it, the deviceowner calls it.
//
// # Nouns
//
//   - bucket: a compiled batch size, in rows. A batch of n rows runs in the smallest bucket that is not below n.
//   - batch: rows in host memory, one packed array per dtype, and the memory for its scores.
//   - launch: the start of one batch. It ends with exactly one call of its done function.
//
// # Invariants
//
//	I1  done is called exactly once for each Launch that returned nil, and never for one that returned an error.
//	I2  Until done is called the arrays and the score memory of the batch belong to the executor; afterwards it touches neither.
//	I3  An executor never writes to the input arrays.
//	I4  At most Depth launches are in flight; the caller keeps to it.
//
// # Concurrency
//
// Launch is called from one goroutine. done may be called from any goroutine or thread, also before Launch returns, and must not block.
//
// # Failure
//
// An error handed to done concerns that batch alone; the executor stays usable unless the error wraps ErrDead.
//
// Errors of opening a device and of Compile wrap ErrPermanent where another try with the same options and files would end
// the same way. All others, such as a device that is busy or out of memory, may be worth a try.
package executor
