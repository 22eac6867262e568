package report

import (
	"encoding/json"
	"strings"
	"testing"

	"rankd/bench/capacity"
)

func TestWhatWasNotMeasuredIsNull(t *testing.T) {
	s := Summary{
		Figures:   []Figures{{Arm: "rankd", Rows: 16, Peak: 1000}},
		Capacity:  []CapacitySummary{{"continuous", []CapacityFigures{{capacity.Capacity{Objective: 20}}}}},
		Ablations: []AblationSummary{{Table: "timer", Examples: 5}},
	}
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"arm":"rankd"`, `"examples_per_request":16`, `"peak":1000`, `"throughput_p99_20ms":null`, `"memory_mib":null`, `"mismatches":0`, `"errors":0`,
		`"objective_ms":20,"requests_per_s":0`, `"p50_ms":null`, `"examples_per_s":5`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
	if n := strings.Count(string(text), `"cpu_s_per_1000":null`); n != 3 {
		t.Errorf("got %d times no CPU time, want 3, once for each kind of figure: %s", n, text)
	}
	var back Summary
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if f := back.Figures[0]; f.Arm != "rankd" || f.Peak != 1000 || f.Within20 != 0 || back.Capacity[0].Capacities[0].Objective != 20 {
		t.Errorf("read back: got %+v", back)
	}
}
