package report

import "path/filepath"

// States of an arm.
const (
	Measured = "measured"
	LeftOut  = "left out"
	Wrong    = "not measured: it answers wrongly"
	Failed   = "ended early"
)

// Suite is the form of suite.json: what was to be compared, and what became of each arm.
type Suite struct {
	Schema      int     `json:"schema"` // load.Schema
	Platform    string  `json:"platform"`
	IDs         string  `json:"ids"`
	Workload    string  `json:"workload,omitempty"`    // "": independent examples
	WorkloadIs  string  `json:"workload_is,omitempty"` // in a sentence
	MaxVocab    int64   `json:"max_vocab"`
	Connections int     `json:"connections"`
	Duration    float64 `json:"duration_s"` // of a point of the comparison; 0: none was made
	Warmup      float64 `json:"warmup_s"`
	Repeats     int     `json:"repeats"`
	// PricePerHour is that of the machine; 0: not known.
	PricePerHour float64    `json:"price_per_hour,omitempty"`
	Arms         []SuiteArm `json:"arms"`
}

// brief reports whether runs were short (those of trials of rankd alone are not known here) and tables small, as in a smoke run: such
// figures mean little.
func (s *Suite) brief() bool {
	return s != nil && s.Duration < 2 && s.MaxVocab > 0 && s.MaxVocab <= 10_000
}

// SuiteArm is one arm of it.
type SuiteArm struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
}

// readSuite reads suite.json; nil: there is none.
func readSuite(dir string) (*Suite, error) {
	s := &Suite{}
	if found, err := readFile(filepath.Join(dir, "suite.json"), s, &s.Schema); !found {
		return nil, err
	}
	return s, nil
}
