// Package pjrt runs batches on any device that has a PJRT plugin: XLA's CPU plugin, CUDA, TPU. It implements
// executor.Executor over the plugin's C API, and keeps compiled programs on disk so that a process that starts again serves
// within a fraction of a second.
//
// # Nouns
//
//   - plugin: a shared library that exports GetPjrtApi. It is loaded once a process and never unloaded.
//   - device: the first device of the plugin's client, with the program's weights on it.
//   - bucket: a batch size for which the program is compiled; all buckets share the weights.
//   - shim: this package's own C code, which calls the plugin. Tests and benchmarks put the go-xla binding in its place.
//   - image: a compiled program as the plugin serializes it. The execache package keeps images; see there for the files.
//   - run: one batch from host memory to host memory: upload, execution, download.
//   - starter: the goroutine that starts runs, in the order of their launches.
//   - lander: the goroutine that takes the ends of runs that were not over when they had been started.
//   - target: a kind of device that need not be there, for which the plugin compiles by its description (a topology).
//
// # Invariants
//
//	I1  When done is called the device no longer refers to the batch's memory, whether rows were copied or lent (HostMemory):
//	    the plugin's own word for it is awaited after the buffers over that memory are destroyed.
//	I2  Every device buffer and event that a batch made is destroyed before its done is called, whether it succeeded or not.
//	I3  A compiled bucket is usable only after one run on zeros whose result was a single float32 [bucket, columns].
//	I4  A Launch never compiles; a compilation after the first Launch is counted and logged. Loading an image is no compilation.
//	I5  Nothing here writes to stderr or downloads anything: what there is to say goes to Options.Log. The plugin is told to
//	    print errors only (TF_CPP_MIN_LOG_LEVEL=2 unless it is set).
//	I6  The layouts in abi.h are those of the official header; a test compiles a comparison of every member. A function that
//	    the plugin's table may lack is asked for before it is called.
//	I7  An image runs only if everything that its compilation depended on is the same: the plugin's file, its version and kind of
//	    device, the processor, compile and client options, the number of threads, and the program's text. For one that was compiled
//	    for a topology, the number of devices takes the place of processor, client options, threads and version. It must have the
//	    right form. One of at most 16 rows runs on zeros first; the first run of a larger one is a trial (below).
//
// # The shim
//
// abi.h describes the part of the C API that is used; shim.c and batch.c hold sequences of calls, so that a batch is one cgo
// call to start it, and one more, for all that have ended meanwhile, if it was not over then. The Go side allocates nothing
// for it. The plugin's arguments are filled in once a concurrent run and only their results reset. Objects that it holds are
// counted by kind, and tests see that none is left.
//
// A run is over when all its events are ready: those of the uploads, which say that the rows are free again, and that of the
// download. The buffers over the rows are destroyed as soon as the program is queued, since without a copy their events wait
// for that; the plugin keeps what the program still reads. rk_start asks for a call at each event. Whoever sees the last one
// has the run:
//
//	rk_start itself       what was queued is done already, as a small program of the CPU plugin: the starter lands the run
//	a thread of the       appends the run to a list and, if that was empty, raises an eventfd. The lander waits for it in
//	plugin                the runtime's poller and takes the whole list
//
// So launches in flight occupy no thread, and no Go code runs on the plugin's. What was measured, and what was not kept, is in
// docs/performance/device-path.md.
//
// MapHost tells the plugin of memory that it will read again and again, where its table has the function (PJRT_Client_DmaMap):
// then rows need not be copied on the host on their way. The CPU plugin has no use for it.
//
// # Compiled programs on disk
//
// With Options.CacheDir, Compile looks there first, and New starts to load Options.Buckets at once, several at a time. The key
// holds the program's text rather than a digest of the whole model: weights are arguments, so a model that was trained again
// finds its programs. What is damaged, foreign or stale is logged, compiled anew and replaced. A program that kills its
// process while it is loaded or first run leaves the marker of its trial behind, and the next process compiles instead; one
// whose first run fails makes the executor dead, so that there is a next process. A plugin that cannot serialize is asked
// once a process. A process killed by somebody else in a trial costs one compilation too.
//
// With Options.BundleDir, those that came with the model are looked at next, in the same way; the cache comes first since what is
// in it was compiled here although the bundle was there. One that does not fit is logged with the fields in which its key
// differs. A bundle is not written to, so the markers of trials lie in the cache, and so does the mark of one that ended badly.
// Without a cache all programs of the bundle run on zeros when they are loaded. Export makes the entries for this machine's device.
//
// Measured on two shared cores with the full dense network (64 MB of weights): 14 ms to load the CPU plugin, 4 ms for its
// client, 40 ms for the weights, 8 ms an image where a compilation takes 300 to 800 ms. A first run on zeros takes 7 ms for one
// row, 55 ms for 64 and 2 s for 4096, which is why I7 leaves those of large buckets to their first batch.
//
// # Compiling without a device
//
// A Target compiles with PJRT_Compile for what PJRT_TopologyDescription_Create describes; no client is opened. XLA's CPU plugin
// implements neither; libtpu does both, in a process that has TPU_SKIP_MDS_QUERY=1 and never opened a client (QuietEnvironment).
// libtpu takes a host for one of 2x2 chips, so that the shape of the host is given with the name: all of the topology is one
// host here. The executable is bound to the topology's device with the smallest number, which is taken for a client's first one. What
// a topology says of its version need not be what a client says, so it is no part of the key: the plugin's file is.
//
// # Processors
//
// XLA's CPU client sizes its thread pools from the CPU affinity of the thread that opens it, and those threads inherit that
// affinity. So the affinity is set (CPUs, DeviceThreads) on a locked thread before the plugin is loaded, and taken back
// afterwards; compilation, loading and the launching threads use the same processors. Nothing else in the process is pinned.
// There is no other way to bound the CPU plugin's threads, which would otherwise compete with the frontends.
//
// # Concurrency
//
// Compile, Launch and Close may be called from different goroutines. Launch does not block: it hands the batch to the starter.
// done is called on the starter's or the lander's goroutine, or on one of its own when the batch failed. The starter is inside C
// while the plugin copies rows or runs a small program, so one launch behind it waits for that; the lander never waits for the
// device. The first run of a large program from the cache is waited for by the starter. In tests under the race detector the
// go-xla binding needs -tags race_mu: it locks a pool that is otherwise guarded by pinning, which the detector cannot see.
//
// # Failure
//
// An error of one batch leaves the executor usable. When a batch fails for another reason than memory, the executor runs the
// smallest bucket on zeros; if that fails too the device is gone, the error wraps executor.ErrDead and so does every later
// Launch. A call that never returns cannot be interrupted: whoever watches the age of the batch in flight ends the process.
// A missing, truncated or foreign plugin file is an error before the dynamic loader sees it. A parameter of main is compared
// by the plugin only in size with what it gets: a program with another element type of the same width is found by
// comparing scores with the bundle's golden ones. A cache that cannot be used is logged and not used.
package pjrt
