package sim

import (
	"testing"

	"rankd/internal/faults"
)

func TestI4EnvironmentCountsOnlyWithFaultHooks(t *testing.T) {
	t.Setenv(FaultsVariable, "fail=3")
	f, err := FaultsFromEnv()
	if faults.Enabled != (err == nil) || faults.Enabled != (f.FailAt == 3) {
		t.Errorf("hooks %v: got %+v, %v", faults.Enabled, f, err)
	}
	t.Setenv(FaultsVariable, "")
	if f, err := FaultsFromEnv(); err != nil || f != (Faults{}) {
		t.Errorf("unset: got %+v, %v", f, err)
	}
}
