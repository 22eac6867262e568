package exam

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Executors that expectations can be computed for.
const (
	Sim  = "sim"  // the simulated accelerator
	PJRT = "pjrt" // the model's network
)

// Protocols that requests can be written in.
const (
	Rankd  = "rankd"  // rankd.v1.PredictionService/Predict
	KServe = "kserve" // inference.GRPCInferenceService/ModelInfer with raw contents
)

// Forms of the ids in a request.
const (
	Packed = "packed" // one tensor "ids"; all tables must have a fixed hotness
	Tables = "tables" // one tensor a table, or values and lengths
)

// Options say what is asked.
type Options struct {
	Examples int    // distinct examples
	Seed     uint64 //
	IDs      string // distribution
	Workload string // "": Independent
	Executor string
	Protocol string
	Form     string // "": packed where the model allows it
	Width    int    // bytes an id: 4 or 8
	CacheDir string // where expectations are kept between runs; "": nowhere
}

// Default returns 16,384 independent examples with uniform ids, packed int32, for the simulated accelerator.
func Default() Options {
	return Options{Examples: 16384, Seed: 1, IDs: "uniform", Workload: Independent, Executor: Sim, Protocol: Rankd, Width: 4}
}

// check reports all violations.
func (o *Options) check(fixed bool) error {
	var errs []error
	among := func(what, got string, want ...string) {
		for _, w := range want {
			if got == w {
				return
			}
		}
		errs = append(errs, fmt.Errorf("%s: got %q, want one of %s", what, got, strings.Join(want, ", ")))
	}
	if o.Examples < 1 {
		errs = append(errs, fmt.Errorf("examples: got %d, want at least 1", o.Examples))
	}
	if o.Width != 4 && o.Width != 8 {
		errs = append(errs, fmt.Errorf("bytes an id: got %d, want 4 or 8", o.Width))
	}
	among("executor", o.Executor, Sim, PJRT)
	among("protocol", o.Protocol, Rankd, KServe)
	among("form", o.Form, Packed, Tables)
	among("workload", o.Workload, Workloads()...)
	_, err := o.exponent()
	return errors.Join(append(errs, o.checkForm(fixed), err)...)
}

// CheckIDs refuses a distribution of ids that there is not.
func CheckIDs(ids string) error {
	_, err := (&Options{IDs: ids}).exponent()
	return err
}

// exponent is that of the zipf distribution, 0 for a uniform one.
func (o *Options) exponent() (float64, error) {
	if o.IDs == "uniform" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(o.IDs, "zipf:")
	s, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || s <= 1 || s > 100 {
		return 0, fmt.Errorf("ids: got %q, want uniform or zipf:S with S above 1", o.IDs)
	}
	return s, nil
}
