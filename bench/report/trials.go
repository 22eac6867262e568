package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rankd/bench/ablation"
	"rankd/bench/load"
	"rankd/bench/overload"
	"rankd/bench/soak"
)

// trials are what one server was put through.
type trials struct {
	Overload  *overload.File
	Soak      *soak.File
	Ablations *ablation.File
}

func (t *trials) collect(dir string) error {
	t.Overload, t.Soak, t.Ablations = &overload.File{}, &soak.File{}, &ablation.File{}
	var errs []error
	if found, err := readFile(filepath.Join(dir, overload.Name), t.Overload, &t.Overload.Schema); !found {
		t.Overload, errs = nil, append(errs, err)
	}
	if found, err := readFile(filepath.Join(dir, soak.Name), t.Soak, &t.Soak.Schema); !found {
		t.Soak, errs = nil, append(errs, err)
	}
	t.analyse()
	if found, err := readFile(filepath.Join(dir, ablation.Name), t.Ablations, &t.Ablations.Schema); !found {
		t.Ablations, errs = nil, append(errs, err)
	}
	return errors.Join(errs...)
}

// analyse fits a soak's lines by the rules of this report, whenever it was measured.
func (t *trials) analyse() {
	if t.Soak != nil && t.Soak.Result != nil && len(t.Soak.Samples) > 0 {
		t.Soak.Analyse()
	}
}

// readFile reads JSON of the current schema; a file that is not there is no error.
func readFile(path string, into any, schema *int) (found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err == nil && *schema != load.Schema {
		err = fmt.Errorf("got schema %d, want %d", *schema, load.Schema)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

func (t *trials) empty() bool { return t.Overload == nil && t.Soak == nil && t.Ablations == nil }

// simulated reports whether any of it is from the simulated accelerator.
func (t *trials) simulated() bool {
	if t.Overload != nil {
		return true // there is no other way to make a device slow
	}
	return slices.ContainsFunc(t.results(), func(r *load.Result) bool { return r.Simulated })
}

// results are the runs of all trials, but for those beside slow clients.
func (t *trials) results() (list []*load.Result) {
	if t.Overload != nil {
		for i := range t.Overload.Scenarios {
			list = append(list, t.Overload.Scenarios[i].Result)
		}
	}
	if t.Soak != nil {
		list = append(list, t.Soak.Result)
	}
	if t.Ablations != nil {
		for _, x := range t.Ablations.Tables {
			for i := range x.Settings {
				list = append(list, x.Settings[i].Results...)
			}
		}
	}
	return slices.DeleteFunc(list, func(r *load.Result) bool { return r == nil })
}
