package main

import (
	"strings"
	"testing"

	"rankd/internal/placement"
	"rankd/internal/topology/topologytest"
)

// TestPlacementOfTheFlags goes from flags to a plan on machines that are elsewhere.
func TestPlacementOfTheFlags(t *testing.T) {
	const where = "0-15,128-143"
	gpu := "device 0000:07:00.0 cuda node 0"
	for _, c := range []struct {
		name string
		set  func(c *serveConfig)
		want []string
	}{
		{"the defaults", func(*serveConfig) {}, []string{
			"frontend 0: not pinned", "device owner: not pinned", "tables: interleave over nodes 0-7", "slabs: interleave over nodes 0-7",
			"note: --frontends 1 is fewer than the 8 nodes 0-7: each frontend runs on all of them",
		}},
		{"a GPU", func(c *serveConfig) { c.owner.Platform = "cuda" }, []string{"device owner: CPUs " + where, "slabs: node 0"}},
		{"a simulated accelerator beside a GPU", func(c *serveConfig) { c.owner.Executor, c.owner.Platform = "sim", "cuda" }, []string{"device owner: not pinned"}},
		{"CPUs of the owner", func(c *serveConfig) { c.owner.OwnerCPUs = []int{20, 16} }, []string{"device owner: CPUs 16,20", "slabs: node 1"}},
		{"one node", func(c *serveConfig) { c.supervisor.Placement = "node=0" }, []string{"frontend 0: CPUs " + where, "tables: node 0", "slabs: node 0"}},
		{"copies", func(c *serveConfig) {
			c.supervisor.Frontends, c.supervisor.TablesPlacement = 8, "local-copies"
		}, []string{"frontend 0: CPUs " + where + ", tables of node 0", "tables: local-copies on nodes 0-7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := newServeConfig()
			c.set(config)
			plan, err := config.place(topologytest.Lay(t, "dgx-a100", gpu), "self", nil)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Join(plan.Lines(), "\n") + "\n"
			for _, want := range c.want {
				if !strings.Contains(lines, want+"\n") {
					t.Errorf("got plan\n%swant %q in it", lines, want)
				}
			}
		})
	}
}

func TestMachineThatDoesNotTellOfItselfIsServedUnlessMoreIsAsked(t *testing.T) {
	c := newServeConfig()
	c.supervisor.Frontends = 3
	plan, err := c.place(t.TempDir(), "self", nil)
	if err != nil || len(plan.Frontends) != 3 || plan.Tables.Mode != placement.Anywhere || len(plan.Tables.Copies()) != 1 || len(plan.Notes) != 1 {
		t.Errorf("got %+v, %v, want nothing placed and a note", plan, err)
	}
	for _, ask := range []func(){
		func() { c.supervisor.Placement = "cpus=0" },
		func() { c.supervisor.Placement, c.supervisor.TablesPlacement = "auto", "interleave" },
		func() { c.supervisor.TablesPlacement, c.owner.OwnerCPUs = "auto", []int{0} },
	} {
		ask()
		if plan, err := c.place(t.TempDir(), "self", nil); err == nil || !strings.Contains(err.Error(), "/sys/devices/system/cpu/online") {
			t.Errorf("%s, %s: got %+v, %v, want an error that names the file", c.supervisor.Placement, c.supervisor.TablesPlacement, plan, err)
		}
	}
}
