package pjrt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/execache"
)

// Executor runs batches on a PJRT device. It implements executor.Executor.
type Executor struct {
	device     backend
	arrays     []Array
	scoreBytes int
	depth      int
	program    func(batch int) ([]byte, error)
	threads    pinning
	store      *store                       // nil: programs are neither kept nor loaded
	ownKey     func() (execache.Key, error) // of images, without program and bucket; nil if the device is no storer
	log        *slog.Logger

	preloads  preloads
	compiling sync.Mutex // held by Compile; Close waits for it before it frees the device

	work    chan launch
	workers sync.WaitGroup
	flights []launch // started and not over, by tag
	tags    chan int // those of no batch in flight

	mu       sync.Mutex // guards what follows; Launch takes it shortly, once a batch
	runners  map[int]runner
	sources  map[int]Source
	smallest int // smallest compiled bucket, for the probe
	launched bool
	closed   bool

	inFlight     atomic.Int64
	compiles     atomic.Uint64
	lateCompiles atomic.Uint64
	isDead       atomic.Bool
}

var _ executor.Executor = (*Executor)(nil)

// launch is one batch on its way to a worker.
type launch struct {
	runner runner
	batch  *executor.Batch
	done   func(error)
}

// New loads the plugin, opens the device and uploads the weights. The data of the weights is not needed afterwards.
// The error wraps executor.ErrPermanent if the same options and plugin would bring it again.
//
// The plugin stays loaded when the executor is closed: XLA cannot be unloaded. In one process all executors of a plugin
// share its code but each has a client of its own.
func New(o Options) (*Executor, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	path, err := ResolvePlugin(o.PluginPath, o.Platform)
	if err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	threads, available, err := plan(o.CPUs, o.DeviceThreads)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	if o.DeviceThreads > available {
		log.Warn("fewer processors than device threads", "device_threads", o.DeviceThreads, "cpus", available)
	}
	undo, err := threads.apply()
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	began := time.Now()
	stored := beginStore(&o, path, log)
	device, err := openDevice(path, &o, log)
	undo()
	store := <-stored
	if err != nil {
		return nil, errors.Join(lasting(err), store.close())
	}
	e := newExecutor(device, &o, threads, log)
	if d, ok := device.(storer); ok {
		client := o.CreateOptions
		e.ownKey = sync.OnceValues(func() (execache.Key, error) {
			digest, err := execache.FileDigest(path)
			return keysOf(digest, d.identify(), client, threads.count).own, err
		})
	}
	if store != nil {
		store.bind(device.(storer), &o, threads) // beginStore gives one only for such a device
		e.store = store
		e.preloads.start(e, o.Buckets)
	}
	log.Info("device opened", "device", device.describe(), "plugin", path, "depth", e.depth, "device_threads", threads.count,
		"seconds", time.Since(began).Seconds())
	return e, nil
}

// beginStore opens the store beside the device. It gives nil where none is wanted or possible.
func beginStore(o *Options, plugin string, log *slog.Logger) <-chan *store {
	result := make(chan *store, 1)
	if o.CacheDir == "" && o.BundleDir == "" || o.open != nil {
		result <- nil
		return result
	}
	go func() {
		s, err := openStore(o, plugin, log)
		if err != nil {
			log.Warn("executables are neither loaded nor kept", "plugin", plugin, "error", err)
			s = nil
		}
		result <- s
	}()
	return result
}

// newExecutor starts the starter and the lander over a device.
func newExecutor(device backend, o *Options, threads pinning, log *slog.Logger) *Executor {
	e := &Executor{
		device: device, arrays: o.Arrays, scoreBytes: o.ScoreBytes, depth: o.depth(), program: o.Program,
		threads: threads, log: log, runners: map[int]runner{}, sources: map[int]Source{},
	}
	e.work = make(chan launch, e.depth)
	e.flights, e.tags = make([]launch, e.depth), make(chan int, e.depth)
	for tag := range e.depth {
		e.tags <- tag
	}
	e.workers.Go(e.starts)
	e.workers.Go(e.arrivals)
	return e
}

// Name returns "pjrt", the platform, and the versions of the plugin.
func (e *Executor) Name() string { return e.device.describe() }

// Simulated returns false.
func (e *Executor) Simulated() bool { return false }

// Depth returns the number of launches that may be in flight.
func (e *Executor) Depth() int { return e.depth }

// Compiles returns how many buckets were compiled, and how many of those after the first Launch, which should be none.
func (e *Executor) Compiles() (total, late uint64) { return e.compiles.Load(), e.lateCompiles.Load() }

// Compile makes a bucket ready: its program is loaded from the cache or the bundle, or else compiled and kept, and run once on
// zeros. A bucket that is ready already is left alone. The plugin cannot be interrupted: ctx is looked at before the work only.
// The error wraps executor.ErrPermanent if the program cannot be read, is refused by the compiler, or returns another form than
// the manifest's; what the device says of its own state may pass.
func (e *Executor) Compile(ctx context.Context, bucket int) error {
	if bucket <= 0 {
		return wrong("compile bucket: got %d rows, want at least 1", bucket)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compile bucket %d: %w", bucket, err)
	}
	e.compiling.Lock()
	defer e.compiling.Unlock()
	e.mu.Lock()
	known, closed := e.runners[bucket] != nil, e.closed
	e.mu.Unlock()
	if closed {
		return fmt.Errorf("compile bucket %d: %w", bucket, ErrClosed)
	}
	if known {
		return nil
	}
	l := e.preloads.take(bucket)
	if l == nil {
		began := time.Now()
		r, source := e.loadPinned(bucket)
		l = &preload{runner: r, source: source, seconds: time.Since(began).Seconds()}
	}
	if l.runner != nil {
		e.log.Info("bucket ready", "rows", bucket, "source", l.source.String(), "seconds", l.seconds)
		return e.add(bucket, l.runner, l.source)
	}
	return e.compileAndSave(bucket)
}

func (e *Executor) compileAndSave(bucket int) error {
	began := time.Now()
	text, err := e.program(bucket)
	if err != nil {
		return wrong("read program of bucket %d: %w", bucket, err)
	}
	r, err := e.compilePinned(bucket, text)
	if err != nil {
		return fmt.Errorf("compile bucket %d: %w", bucket, lasting(err))
	}
	e.compiles.Add(1)
	e.mu.Lock()
	launched := e.launched
	e.mu.Unlock()
	if launched {
		e.lateCompiles.Add(1)
		e.log.Error("bucket compiled after the first launch", "bucket", bucket)
	}
	e.store.save(bucket, text, r)
	e.log.Info("bucket ready", "rows", bucket, "source", SourceCompiler.String(), "seconds", time.Since(began).Seconds())
	return e.add(bucket, r, SourceCompiler)
}

// compilePinned compiles on the device's processors: the compiler's and the first run's threads are the plugin's too.
func (e *Executor) compilePinned(bucket int, text []byte) (runner, error) {
	undo, err := e.threads.apply()
	if err != nil {
		return nil, err
	}
	defer undo()
	return e.device.compile(bucket, text)
}

// loadPinned loads a bucket's program from the store on the device's processors. It returns nil if there is none that works.
func (e *Executor) loadPinned(bucket int) (runner, Source) {
	if e.store == nil {
		return nil, SourceNone
	}
	text, err := e.program(bucket)
	if err != nil {
		return nil, SourceNone // the compilation meets and reports the same error
	}
	undo, err := e.threads.apply()
	if err != nil {
		return nil, SourceNone
	}
	defer undo()
	return e.store.load(bucket, text)
}

func (e *Executor) add(bucket int, r runner, source Source) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.runners[bucket] != nil {
		err := r.close()
		if e.closed {
			err = errors.Join(ErrClosed, err)
		}
		return err
	}
	e.runners[bucket], e.sources[bucket] = r, source
	if e.smallest == 0 || bucket < e.smallest {
		e.smallest = bucket
	}
	return nil
}

// Launch hands the batch to the starter, which brings the rows to the device, runs the program and lets the scores be copied
// back. It does not block. It refuses a batch whose bucket was not compiled (ErrNotCompiled), whose sizes do not fit, or that is
// one more than Depth.
func (e *Executor) Launch(b *executor.Batch, done func(error)) error {
	if e.isDead.Load() {
		return fmt.Errorf("launch batch: %w", executor.ErrDead)
	}
	if err := e.checkBatch(b); err != nil {
		return fmt.Errorf("launch batch: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("launch batch: %w", ErrClosed)
	}
	e.launched = true
	r := e.runners[b.Bucket]
	if r == nil {
		return fmt.Errorf("launch batch of %d rows: %w", b.Bucket, ErrNotCompiled)
	}
	if e.inFlight.Load() >= int64(e.depth) {
		return fmt.Errorf("launch batch: got more than %d in flight", e.depth)
	}
	e.inFlight.Add(1)
	e.work <- launch{r, b, done} // has room for Depth
	return nil
}

func (e *Executor) checkBatch(b *executor.Batch) error {
	if b.Rows < 1 || b.Rows > b.Bucket {
		return fmt.Errorf("got %d rows, want 1 to %d", b.Rows, b.Bucket)
	}
	if len(b.Arrays) != len(e.arrays) {
		return fmt.Errorf("got %d arrays, want %d", len(b.Arrays), len(e.arrays))
	}
	for i, a := range e.arrays {
		if got, want := len(b.Arrays[i]), b.Bucket*a.Stride; got != want {
			return fmt.Errorf("got %d bytes of array %d, want %d", got, i, want)
		}
	}
	if got, want := len(b.Scores), b.Bucket*e.scoreBytes; got != want {
		return fmt.Errorf("got %d bytes for scores, want %d", got, want)
	}
	return nil
}

// MapHost lets the plugin prepare memory, from which the arrays of batches will come, for transfers without a copy on the
// host. mapped is false if the plugin has no such thing. The memory must stay where it is until Close.
func (e *Executor) MapHost(mem []byte) (mapped bool, err error) {
	if d, ok := e.device.(mapper); ok {
		err = d.mapHost(mem)
		var said *Error
		if !errors.As(err, &said) || said.Code != CodeUnimplemented {
			if err != nil {
				return false, fmt.Errorf("map %d bytes of host memory: %w", len(mem), err)
			}
			return true, nil
		}
	}
	return false, nil
}

// Close waits for the launches in flight and frees everything on the device. It may be called twice.
func (e *Executor) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.work)
	e.mu.Unlock()
	e.workers.Wait()
	e.compiling.Lock() // from now on Compile sees that the executor is closed
	defer e.compiling.Unlock()

	var errs []error
	for _, r := range e.preloads.drain() {
		if err := r.close(); err != nil {
			errs = append(errs, fmt.Errorf("free unused program: %w", err))
		}
	}
	for bucket, r := range e.runners { // no Compile or Launch touches it once closed is set
		if err := r.close(); err != nil {
			errs = append(errs, fmt.Errorf("free bucket %d: %w", bucket, err))
		}
	}
	clear(e.runners)
	return errors.Join(append(errs, e.store.close(), e.device.close())...)
}
