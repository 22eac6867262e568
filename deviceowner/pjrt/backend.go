package pjrt

import (
	"log/slog"
	"os"
	"sync"
)

// backend is the device as the executor uses it. The real ones are shimDevice and xlaDevice; tests put others in their
// place to make them fail.
type backend interface {
	// describe names the device for logs.
	describe() string
	// compile returns the program for one batch size after one run of it on zeros whose result had the right form.
	compile(bucket int, program []byte) (runner, error)
	// close frees the device. All runners are closed by then.
	close() error
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

// identity is what the device says about itself and how it was asked to compile.
type identity struct {
	API, Platform, Version, Kind string
	Options                      []byte // compile options
}

// runner is one compiled bucket. run may be called from several goroutines at once; close may not.
type runner interface {
	// run scores arrays (bucket × stride bytes each) into scores (bucket × score bytes) and returns when both are free again.
	run(arrays [][]byte, scores []byte) error
	close() error
}

func openDevice(path string, o *Options, log *slog.Logger) (backend, error) {
	if o.Backend == BackendGoXLA {
		d, err := openXLA(path, o, log)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	d, err := openShim(path, o)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// quietPlugin asks the plugin to print errors only, unless somebody asked for more. It must come before the plugin is loaded.
var quietPlugin = sync.OnceFunc(func() {
	if _, set := os.LookupEnv("TF_CPP_MIN_LOG_LEVEL"); !set {
		_ = os.Setenv("TF_CPP_MIN_LOG_LEVEL", "2") // fails only for malformed names
	}
})
