package main

import (
	"slices"
	"testing"

	"rankd/deviceowner"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/model"
)

func TestRequestsAreNotCutIntoSmallBatchesWhereTheDeviceIsTheProcessor(t *testing.T) {
	for _, v := range []struct {
		executor, platform string
		flag, want         int
	}{
		{"sim", "cpu", 0, 32}, {"pjrt", "cuda", 0, 32}, {"pjrt", "cpu", 0, 128}, {"pjrt", "cpu", 16, 16}, {"sim", "cpu", 64, 64},
	} {
		c := serveConfig{owner: deviceowner.DefaultSettings()}
		c.owner.Executor, c.owner.Platform, c.frontend.ChunkRows = v.executor, v.platform, v.flag
		c.owner.Buckets = []int{1, 256}
		got := c.frontendConfig(child.NoDescriptors()).ChunkRows
		if region := c.geometry(&model.Manifest{}).ChunkRows; got != v.want || region != v.want {
			t.Errorf("%s on %s, --chunk-rows %d: frontends take %d rows at a time and the region %d, want %d",
				v.executor, v.platform, v.flag, got, region, v.want)
		}
	}
}

func TestFrontendsAreToldWhetherTheDeviceIsSimulated(t *testing.T) {
	for executor, want := range map[string]string{"pjrt": "--simulated=false", "sim": "--simulated=true"} {
		var c serveConfig
		c.owner.Executor = executor
		if args := config.ToArgs(c.frontendConfig(child.NoDescriptors())); !slices.Contains(args, want) {
			t.Errorf("executor %s: got %v, want %s among them", executor, args, want)
		}
	}
}
