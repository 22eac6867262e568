// Package pjrt runs batches on any device that has a PJRT plugin: XLA's CPU plugin, CUDA, TPU. It implements
// executor.Executor over the plugin's C API, through the go-xla binding.
//
// # Nouns
//
//   - plugin: a shared library that exports GetPjrtApi. It is loaded once a process and never unloaded.
//   - device: the first device of the plugin's client, with the program's weights on it.
//   - bucket: a batch size for which the program is compiled; all buckets share the weights.
//   - worker: a goroutine that takes one launch at a time through upload, execution and download. There are Depth of them.
//
// # Invariants
//
//	I1  Host memory is copied in both directions: when done is called the device no longer refers to the batch's memory.
//	I2  Every device buffer that a batch made is destroyed before its done is called, whether it succeeded or not.
//	I3  A bucket is usable only after one run on zeros whose result was a single float32 [bucket, columns].
//	I4  A Launch never compiles; a Compile after the first Launch is counted and logged.
//	I5  The binding neither downloads anything nor writes to stderr: its log goes to Options.Log. The plugin is told to print
//	    errors only (TF_CPP_MIN_LOG_LEVEL=2 unless it is set).
//
// # Processors
//
// XLA's CPU client sizes its thread pools from the CPU affinity of the thread that opens it, and those threads inherit that
// affinity. So the affinity is set (CPUs, DeviceThreads) on a locked thread before the plugin is loaded, and taken back
// afterwards; compilation and the launching threads use the same processors. Nothing else in the process is pinned. There
// is no other way to bound the CPU plugin's threads, which would otherwise compete with the frontends.
//
// # Concurrency
//
// Compile, Launch and Close may be called from different goroutines. Launch does not block: it hands the batch to a worker.
// done is called on a worker's goroutine. Under the race detector build with -tags race_mu as well: it locks a pool of the
// binding that is otherwise guarded by pinning, which the detector cannot see.
//
// # Failure
//
// An error of one batch leaves the executor usable. When a batch fails for another reason than memory, the worker runs the
// smallest bucket on zeros; if that fails too the device is gone, the error wraps executor.ErrDead and so does every later
// Launch. A call that never returns cannot be interrupted: whoever watches the age of the batch in flight ends the process.
// A missing, truncated or foreign plugin file is an error before the dynamic loader sees it. A parameter of main is compared
// by the plugin only in size with what it gets: a program with another element type of the same width is found by
// comparing scores with the bundle's golden ones.
package pjrt
