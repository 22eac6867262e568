package device

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/deviceowner/sim"
	"rankd/internal/stats"
	"rankd/model"
)

// The kinds of executors.
const (
	KindPJRT = "pjrt"
	KindSim  = "sim"
)

// Options choose the executor. Fields of the other kind are ignored.
type Options struct {
	Kind  string // KindPJRT or KindSim
	Depth int    // launches in flight; 0: the kind's own default

	Plugin   string // PJRT: the plugin's file; empty: looked for by platform
	Platform string // PJRT: "cpu", "cuda" or "tpu"
	Threads  int    // PJRT: threads of a CPU device; 0: as many as CPUs allow
	CPUs     []int  // PJRT: processors of the device's threads; empty: those of this process
	Cache    string // PJRT: folder of compiled programs, see pjrt.CacheDir; empty: none are kept
	Bundled  bool   // PJRT: load the executables that came with the bundle, see model.ExecutablesDir
	Buckets  []int  // PJRT: buckets that will be compiled; those in the folder start to load during Open

	SimCall     time.Duration // simulated: device time a launch
	SimRow      time.Duration // simulated: device time a row
	SimTransfer time.Duration // simulated: time a row on its way to the device
	SimFull     bool          // simulated: the score covers every byte of the row

	Log *slog.Logger // nil discards
}

// Counter is implemented by both kinds: buckets compiled, and those of them that were compiled after the first launch.
type Counter interface {
	Compiles() (total, late uint64)
}

// Mapper is implemented by executors that may prepare host memory for transfers, until Close. mapped is false where the device
// has no such thing.
type Mapper interface {
	MapHost(mem []byte) (mapped bool, err error)
}

var _ Mapper = (*pjrt.Executor)(nil)

// Sourcer is implemented by the PJRT kind: where the program of a bucket that is ready came from.
type Sourcer interface {
	Source(bucket int) stats.Source
}

// Exporter is implemented by the PJRT kind: the image of a compiled bucket, and the key under which one of the same options finds it.
type Exporter interface {
	Export(bucket int) (execache.Key, []byte, error)
}

// Open returns the executor for the bundle. No bucket is compiled yet. The error wraps executor.ErrPermanent where the same
// bundle and options would bring it again.
func Open(b *model.Bundle, o Options) (executor.Executor, error) {
	switch o.Kind {
	case KindPJRT:
		return openPJRT(b, o)
	case KindSim:
		return openSim(b, o)
	}
	return nil, executor.Permanent(fmt.Errorf("open device: got kind %q, want %s or %s", o.Kind, KindPJRT, KindSim))
}

func openSim(b *model.Bundle, o Options) (executor.Executor, error) {
	l, err := sim.LayoutOf(b.Manifest)
	if err != nil {
		return nil, executor.Permanent(err)
	}
	s := sim.Default(l)
	s.Call, s.Row, s.Transfer, s.Full = o.SimCall, o.SimRow, o.SimTransfer, o.SimFull
	if o.Depth > 0 {
		s.Depth = o.Depth
	}
	if s.Faults, err = sim.FaultsFromEnv(); err != nil {
		return nil, executor.Permanent(err)
	}
	e, err := sim.New(s) // looks at the options only
	if err != nil {
		return nil, executor.Permanent(err)
	}
	return e, nil
}

func openPJRT(b *model.Bundle, o Options) (_ executor.Executor, err error) {
	file, tensors, err := b.OpenWeights()
	if err != nil { // missing, unreadable, damaged, or without a tensor that the manifest names
		return nil, executor.Permanent(err)
	}
	if file != nil {
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	m := b.Manifest
	p := pjrt.Options{
		PluginPath: o.Plugin, Platform: o.Platform, Program: b.ProgramText, ScoreBytes: m.ScoreBytes(),
		Depth: o.Depth, DeviceThreads: o.Threads, CPUs: o.CPUs, Log: o.Log,
		CacheDir: pjrt.CacheDir(o.Cache), Buckets: o.Buckets, Model: m.Name,
		HostMemory: pjrt.LendRows, // slabs are aligned, and stay as they are until done is called
	}
	if o.Bundled {
		p.BundleDir = b.Path(model.ExecutablesDir)
	}
	for _, a := range m.Packed {
		p.Arrays = append(p.Arrays, pjrt.Array{DType: a.DType, Stride: a.Stride})
	}
	for i, in := range m.Program.Inputs {
		if in.Packed != nil {
			p.Inputs = append(p.Inputs, pjrt.Input{Packed: *in.Packed})
			continue
		}
		w := &pjrt.Weight{Name: in.Weight, DType: tensors[i].DType, Data: tensors[i].Data}
		for _, d := range tensors[i].Shape {
			w.Shape = append(w.Shape, int(d))
		}
		p.Inputs = append(p.Inputs, pjrt.Input{Weight: w})
	}
	e, err := pjrt.New(p)
	if err != nil {
		return nil, err
	}
	return e, nil
}
