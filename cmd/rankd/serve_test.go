package main

import (
	"slices"
	"testing"

	"rankd/internal/child"
	"rankd/internal/config"
)

func TestFrontendsAreToldWhetherTheDeviceIsSimulated(t *testing.T) {
	for executor, want := range map[string]string{"pjrt": "--simulated=false", "sim": "--simulated=true"} {
		var c serveConfig
		c.owner.Executor = executor
		if args := config.ToArgs(c.frontendConfig(child.NoDescriptors())); !slices.Contains(args, want) {
			t.Errorf("executor %s: got %v, want %s among them", executor, args, want)
		}
	}
}
