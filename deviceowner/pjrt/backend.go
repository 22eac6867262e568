package pjrt

import (
	"log/slog"
	"os"
	"sync"
)

// backend is the device as the executor uses it. The real one is shimDevice; tests put others in its place, to compare them or
// to make them fail.
type backend interface {
	// describe names the device for logs.
	describe() string
	// compile returns the program for one batch size after one run of it on zeros whose result had the right form.
	compile(bucket int, program []byte) (runner, error)
	// next waits for the end of a started batch. ok is false after stop.
	next() (a arrival, ok bool)
	// stop ends next. No batch may be in flight.
	stop()
	// close frees the device. All runners are closed by then.
	close() error
}

// arrival is the end of a started batch.
type arrival struct {
	tag int
	err error
}

// storer is a backend whose programs outlive the process. load may be called from several goroutines at once.
type storer interface {
	backend
	// identify says what an image depends on besides the program.
	identify() identity
	// serialize makes an image of a program of this backend.
	serialize(r runner) ([]byte, error)
	// load makes a program of an image and checks its form, with a run on zeros as in compile if run is set.
	load(bucket int, image []byte, run bool) (runner, error)
}

// mapper is a backend that can prepare host memory for transfers.
type mapper interface {
	backend
	// mapHost prepares memory from which batches will come, until close.
	mapHost(mem []byte) error
}

// identity is what the device says about itself and how it was asked to compile.
type identity struct {
	API, Platform, Version, Kind string
	Devices                      int    // that the client or the topology has
	Options                      []byte // compile options
}

// runner is one compiled bucket. run may be called from several goroutines at once; close may not.
type runner interface {
	// run scores arrays (bucket × stride bytes each) into scores (bucket × score bytes) and returns when both are free again.
	run(arrays [][]byte, scores []byte) error
	// start begins what run does. If it is over already, err is what run would have returned; otherwise the memory is the
	// backend's until the tag, which must be below the depth and of no other batch in flight, arrives at next.
	start(arrays [][]byte, scores []byte, tag int) (over bool, err error)
	close() error
}

func openDevice(path string, o *Options, log *slog.Logger) (backend, error) {
	if o.open != nil {
		return o.open(path, o, log)
	}
	d, err := openShim(path, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// samePlatform compares a platform's name here with the plugin's own.
func samePlatform(want, got string) bool {
	return want == got || want == "cuda" && got == "gpu"
}

// quietPlugin asks the plugin to print errors only, unless somebody asked for more. It must come before the plugin is loaded.
var quietPlugin = sync.OnceFunc(func() {
	if _, set := os.LookupEnv("TF_CPP_MIN_LOG_LEVEL"); !set {
		_ = os.Setenv("TF_CPP_MIN_LOG_LEVEL", "2") // fails only for malformed names
	}
})
