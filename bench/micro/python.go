package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// pythonResults is what bench/python/lookup.py prints, as far as it is used here, and the rest of it.
type pythonResults struct {
	CPU      string                                `json:"cpu"`
	Versions map[string]string                     `json:"versions"`
	Rows     int64                                 `json:"rows"`
	Huge     int64                                 `json:"huge_bytes"`
	Results  map[string]map[string]json.RawMessage `json:"results"` // way, batch size
}

// lookups makes one repeat of lookup.py; its figures are called "python WAY/batch=N µs/example".
func lookups(ctx context.Context, o *options, r *results) error {
	args := []string{"-c", strconv.Itoa(o.cpu), o.python, "bench/python/lookup.py", "--repeats", "1"}
	if o.quick {
		args = append(args, "--max_vocab_size", "1000", "--examples", "256")
	}
	cmd := exec.CommandContext(ctx, "taskset", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run lookup.py: %w", err)
	}
	r.Python = &pythonResults{}
	if err := json.Unmarshal(out, r.Python); err != nil {
		return fmt.Errorf("read what lookup.py says: %w", err)
	}
	for way, sizes := range r.Python.Results {
		for size, text := range sizes {
			var x struct {
				Best float64 `json:"best_us"`
			}
			if json.Unmarshal(text, &x) != nil || x.Best == 0 {
				continue // the largest difference
			}
			key := fmt.Sprintf("python %s/batch=%s µs/example", way, size)
			if r.Figures[key] == nil {
				r.Figures[key] = &figure{Unit: "µs/example"}
			}
			r.Figures[key].Values = append(r.Figures[key].Values, x.Best)
		}
	}
	return nil
}
