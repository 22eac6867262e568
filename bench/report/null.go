package report

import (
	"encoding/json"

	"rankd/bench/capacity"
)

// measured is nil, which JSON writes as null, for a figure that was not measured: 0 in all structs here.
func measured(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// plainFigures are Figures without their own way into JSON.
type plainFigures Figures

// MarshalJSON writes null for what was not measured. Reading needs nothing: null leaves the 0 that was there.
func (f Figures) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct { // its own fields go before those of the same names in what it embeds
		plainFigures
		Within10    *float64 `json:"throughput_p99_10ms"`
		Within20    *float64 `json:"throughput_p99_20ms"`
		Within50    *float64 `json:"throughput_p99_50ms"`
		Peak        *float64 `json:"peak"`
		PeakCallers *float64 `json:"peak_callers"`
		PerThousand *float64 `json:"cpu_s_per_1000"`
		PerCore     *float64 `json:"examples_per_core_second"`
		P50         *float64 `json:"p50_ms_c1"`
		P99         *float64 `json:"p99_ms_c1"`
		MemoryMiB   *float64 `json:"memory_mib"`
		ClientShare *float64 `json:"client_cpu_share"`
	}{
		plainFigures(f), measured(f.Within10), measured(f.Within20), measured(f.Within50), measured(f.Peak), measured(f.PeakCallers),
		measured(f.PerThousand), measured(f.PerCore), measured(f.P50), measured(f.P99), measured(f.MemoryMiB), measured(f.ClientShare),
	})
}

type plainAblation AblationSummary

// MarshalJSON is described at Figures.
func (a AblationSummary) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plainAblation
		PerThousand *float64 `json:"cpu_s_per_1000"`
	}{plainAblation(a), measured(a.PerThousand)})
}

// CapacityFigures is a capacity. A rate of 0 is a finding: none passed.
type CapacityFigures struct{ capacity.Capacity }

// MarshalJSON is described at Figures.
func (c CapacityFigures) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		capacity.Capacity
		P50         *float64 `json:"p50_ms"`
		P99         *float64 `json:"p99_ms"`
		PerThousand *float64 `json:"cpu_s_per_1000"`
	}{c.Capacity, measured(c.P50), measured(c.P99), measured(c.PerThousand)})
}
