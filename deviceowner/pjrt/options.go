package pjrt

import (
	"errors"
	"fmt"
	"log/slog"

	"rankd/internal/dtype"
)

// Options says what to load and how the program is called.
type Options struct {
	// PluginPath is the plugin's shared library. Empty: it is looked for by Platform, see ResolvePlugin.
	PluginPath string
	// Platform is "cpu", "cuda" or "tpu". It may be empty when PluginPath is given; otherwise the plugin must report it.
	Platform string

	// Program returns the StableHLO program (MLIR text or portable bytecode) for one batch size in rows.
	Program func(batch int) ([]byte, error)
	// Inputs are the parameters of the program's main, in order.
	Inputs []Input
	// Arrays are the packed arrays, in the order of executor.Batch.Arrays.
	Arrays []Array
	// ScoreBytes is the size of one row of the program's result: 4 × its columns. The result must be float32 [batch, columns],
	// or [batch] for one column.
	ScoreBytes int

	// Depth is the number of launches in flight. 0: 1 on the cpu platform, where a second one overlaps nothing, else 2.
	Depth int
	// DeviceThreads bounds the threads of a CPU device. 0: as many as CPUs allow.
	DeviceThreads int
	// CPUs are the processors on which the plugin's threads and the launching threads run. Empty: those of this process.
	CPUs []int

	// HostMemory says how rows reach the device.
	HostMemory HostMemory

	// CacheDir keeps compiled programs for the next process, where the plugin can serialize them: a folder that only this
	// user may write to, made if need be. Empty: none are kept. A folder that cannot be used is logged and not used.
	CacheDir string
	// CacheBytes bounds that folder. 0: DefaultCacheBytes.
	CacheBytes int64
	// BundleDir has compiled programs that came with the model, see execache.Shelf. Empty, or no such folder: there are none.
	BundleDir string
	// Model groups the programs of one model in the folder; only the last few of each bucket are kept.
	Model string
	// Buckets are those for which Compile will be called. New starts to load them from the folder, several at once.
	Buckets []int

	// CreateOptions go to the plugin's client as they are: string, int64, []int64, float32 or bool values.
	CreateOptions map[string]any
	// Log receives what there is to say about the device; nil discards it.
	Log *slog.Logger

	open func(path string, o *Options, log *slog.Logger) (backend, error) // nil: the shim
}

// HostMemory says what the plugin may do with the rows of a batch. Whatever it is, done is called when it is over.
type HostMemory int

const (
	// CopyRows lets the plugin copy the rows before the program starts.
	CopyRows HostMemory = iota
	// LendRowsForTransfer lets it read the rows until they are on the device, while the program is already queued.
	LendRowsForTransfer
	// LendRows lets the device read the rows where they are until the program has ended. On devices with memory of their
	// own, and for rows that are not aligned to 64 bytes, the plugin may copy them all the same.
	LendRows
)

// Input is one parameter of main: Weight when it is not nil, else the packed array with index Packed.
type Input struct {
	Weight *Weight
	Packed int
}

// Weight is a tensor that is uploaded once. Data is raw little-endian, row-major, and only read during New.
type Weight struct {
	Name  string
	DType dtype.DType
	Shape []int
	Data  []byte
}

// Array is a packed array: main sees it as [batch, Stride / DType.Size()].
type Array struct {
	DType  dtype.DType
	Stride int // bytes a row
}

// depth is the number of launches in flight.
func (o *Options) depth() int {
	switch {
	case o.Depth > 0:
		return o.Depth
	case o.Platform == "cpu":
		return 1
	}
	return 2
}

// validate reports every violation at once.
func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch o.Platform {
	case "cpu", "cuda", "tpu":
	case "":
		if o.PluginPath == "" {
			bad("platform: got none and no plugin path, want cpu, cuda or tpu")
		}
	default:
		bad("platform: got %q, want cpu, cuda or tpu", o.Platform)
	}
	if o.HostMemory < CopyRows || o.HostMemory > LendRows {
		bad("host memory: got %d, want %d to %d", o.HostMemory, CopyRows, LendRows)
	}
	if o.CacheBytes < 0 {
		bad("cache bytes: got %d, want no negative number", o.CacheBytes)
	}
	if o.Program == nil {
		bad("program: got none")
	}
	if o.ScoreBytes <= 0 || o.ScoreBytes%4 != 0 {
		bad("score bytes: got %d, want a positive multiple of 4", o.ScoreBytes)
	}
	if o.Depth < 0 || o.DeviceThreads < 0 {
		bad("depth and device threads: got %d and %d, want no negative number", o.Depth, o.DeviceThreads)
	}
	for i, a := range o.Arrays {
		if size := a.DType.Size(); size == 0 || a.Stride <= 0 || a.Stride%size != 0 {
			bad("array %d: got stride %d of %s, want a positive multiple of its element size", i, a.Stride, a.DType)
		}
	}
	used := make([]int, len(o.Arrays))
	for i, in := range o.Inputs {
		switch {
		case in.Weight != nil:
			errs = append(errs, in.Weight.validate())
		case in.Packed < 0 || in.Packed >= len(o.Arrays):
			bad("input %d: got packed array %d, want below %d", i, in.Packed, len(o.Arrays))
		default:
			used[in.Packed]++
		}
	}
	for i, n := range used {
		if n != 1 {
			bad("array %d: is %d inputs of the program, want exactly 1", i, n)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return wrong("check executor options: %w", err)
	}
	return nil
}

func (w *Weight) validate() error {
	want := w.DType.Size()
	for _, d := range w.Shape {
		if d <= 0 {
			return fmt.Errorf("weight %q: got shape %v, want positive dimensions", w.Name, w.Shape)
		}
		if want > 0 && d > (1<<46)/want {
			return fmt.Errorf("weight %q: got shape %v, which is beyond any device", w.Name, w.Shape)
		}
		want *= d
	}
	if want == 0 || len(w.Data) != want {
		return fmt.Errorf("weight %q: got %d bytes, want %d for %s %v", w.Name, len(w.Data), want, w.DType, w.Shape)
	}
	return nil
}
