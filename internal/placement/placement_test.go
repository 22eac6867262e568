package placement_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"rankd/internal/placement"
	"rankd/internal/testutil"
	"rankd/internal/topology"
	"rankd/internal/topology/topologytest"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// at reads a recorded machine.
func at(t *testing.T, name string, more ...string) (*topology.Machine, *topology.Allowance, topology.Set) {
	t.Helper()
	root := topologytest.Lay(t, name, more...)
	m, err := topology.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	a, err := topology.Allowed(root, "self", m)
	if err != nil {
		t.Fatal(err)
	}
	a.Group = strings.TrimPrefix(a.Group, root)
	return m, a, topology.NodesOfAccelerators(topology.Accelerators(root, "cuda"))
}

// TestPlans makes a plan for a recorded machine. Arguments are the flags; the input is more lines for the machine.
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m, a, devices := at(t, d.Cmd, strings.Split(strings.TrimSpace(d.Input), "\n")...)
			r := placement.Request{Placement: placement.Auto, Tables: placement.Auto, Frontends: 1, TableBytes: 20 << 30, SlabBytes: 64 << 20}
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "placement":
					r.Placement = strings.Join(arg.Vals, ",")
				case "tables":
					r.Tables = strings.Join(arg.Vals, ",")
				case "frontends":
					arg.Scan(t, 0, &r.Frontends)
				case "gib":
					arg.Scan(t, 0, &r.TableBytes)
					r.TableBytes <<= 30
				case "owner":
					r.OwnerCPUs = list(t, strings.Join(arg.Vals, ","))
				case "host":
					r.OnHost = true
				case "gpu": // the node of the only one
					r.Devices = list(t, arg.Vals[0])
				case "gpus":
					r.Devices = devices
				default:
					d.Fatalf(t, "unknown argument %q", arg.Key)
				}
			}
			p, err := placement.Make(r, m, a)
			if err != nil {
				return err.Error()
			}
			return strings.Join(p.Lines(), "\n")
		})
	})
}

func list(t *testing.T, text string) topology.Set {
	t.Helper()
	s, err := topology.ParseList(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestI1AndI2HoldForEveryPlan goes through machines and flags, and looks at what a plan may use.
func TestI1AndI2HoldForEveryPlan(t *testing.T) {
	plans := 0
	for _, name := range topologytest.Names(t) {
		for _, more := range []string{"", "cpuset v2 1-40", "kernel without NUMA"} {
			m, a, devices := at(t, name, more)
			for _, where := range []string{"auto", "node=0", "node=0-1", "cpus=1", "cpus=0-5", "cpus=2-33"} {
				for _, tables := range []string{"auto", "interleave", "local-copies", "node=0", "node=1"} {
					for _, frontends := range []int{1, 2, 3, 8, 20} {
						for _, host := range []bool{true, false} {
							r := placement.Request{Placement: where, Tables: tables, Frontends: frontends, OnHost: host, Devices: devices, TableBytes: 3 << 30}
							p, err := placement.Make(r, m, a)
							if err != nil {
								continue
							}
							plans++
							if bad := wrongWith(p, m, a); bad != "" {
								t.Fatalf("%s %q %+v: %s:\n%s", name, more, r, bad, strings.Join(p.Lines(), "\n"))
							}
						}
					}
				}
			}
		}
	}
	if plans < 1000 {
		t.Errorf("got %d plans, want most of the combinations", plans)
	}
}

func wrongWith(p *placement.Plan, m *topology.Machine, a *topology.Allowance) string {
	sets := []topology.Set{p.CPUs, p.Owner.CPUs}
	copies := p.Tables.Copies()
	for _, f := range p.Frontends {
		sets = append(sets, f.CPUs)
		if f.Copy >= len(copies) {
			return "no such copy"
		}
		if p.Tables.Mode == placement.LocalCopies && f.Node >= 0 && !copies[f.Copy].Nodes.Equal(topology.Set{m.MemoryNear(f.Node, a.Nodes)}) {
			return "a frontend reads a copy that is not the nearest"
		}
	}
	for _, s := range sets {
		if len(s.Without(a.CPUs)) > 0 {
			return "CPUs outside the allowance"
		}
	}
	labels := map[string]bool{}
	for _, c := range append(copies, p.Slabs.Copies()...) {
		if len(c.Nodes.Without(a.Nodes)) > 0 {
			return "nodes outside the allowance"
		}
		for _, n := range c.Nodes {
			if m.Node(n).Memory == 0 {
				return "memory on a node without"
			}
		}
	}
	for _, c := range copies {
		if labels[c.Label] {
			return "two copies of one name"
		}
		labels[c.Label] = true
	}
	return ""
}

// TestI4PlansDoNotDependOnWhatIsFree: a restart finds its own tables in memory, and decides the same.
func TestI4PlansDoNotDependOnWhatIsFree(t *testing.T) {
	for _, name := range topologytest.Names(t) {
		for _, tables := range []string{"auto", "local-copies"} {
			m, a, _ := at(t, name)
			r := placement.Request{Placement: placement.Auto, Tables: tables, Frontends: 8, TableBytes: 15 << 30}
			before, err := placement.Make(r, m, a)
			for i := range m.Nodes {
				m.Nodes[i].Available = 0
			}
			after, err2 := placement.Make(r, m, a)
			if (err == nil) != (err2 == nil) || err == nil && strings.Join(before.Lines(), "\n") != strings.Join(after.Lines(), "\n") {
				t.Errorf("%s: got %v %v, want what it was before: %v %v", name, after, err2, before, err)
			}
		}
	}
}

func TestRoom(t *testing.T) {
	m, _, _ := at(t, "xeon-6248-2s-snc", "pool 3 61440") // 45 GiB free on node 0, 47 on the others
	for _, c := range []struct {
		nodes topology.Set
		gib   int64
		want  string
	}{
		{nil, 1 << 20, ""},
		{topology.Set{0}, 44, ""},
		{topology.Set{0}, 46, "node 0 has 44.90 GiB available, want 46.00 GiB"},
		{topology.Set{0, 1, 2, 3}, 176, ""},
		{topology.Set{1, 2}, 96, "node 1 has 47.10 GiB available, want 48.00 GiB"},
		{topology.Set{3}, 60, ""}, // in its pool
		{topology.Set{3}, 61, "node 3 has 60.00 GiB available, want 61.00 GiB"},
		{topology.Set{9}, 1, "node 9 has 0 B available, want 1.00 GiB"},
	} {
		got := ""
		if err := placement.Room(m, c.nodes, c.gib<<30); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d GiB on %s: got %q, want %q", c.gib, c.nodes, got, c.want)
		}
	}
}

func TestMemoryThatLiesElsewhereIsNoticed(t *testing.T) {
	const g = 1 << 30
	two := placement.Copy{Nodes: topology.Set{0, 1}}
	one := placement.Copy{Nodes: topology.Set{1}}
	for _, c := range []struct {
		name string
		want placement.Copy
		got  map[int]int64
		says string
	}{
		{"anywhere", placement.Copy{}, map[int]int64{0: 10 * g}, ""},
		{"not known", one, nil, ""},
		{"on the node", one, map[int]int64{1: 10 * g}, ""},
		{"almost on the node", one, map[int]int64{0: g / 10, 1: 10 * g}, ""},
		{"on another", one, map[int]int64{0: 10 * g}, "0 B of 10.00 GiB lie on nodes 1"},
		{"partly on another", one, map[int]int64{0: g, 1: 9 * g}, "9.00 GiB of 10.00 GiB lie on nodes 1"},
		{"by turns", two, map[int]int64{0: 5 * g, 1: 5*g - 2<<20}, ""},
		{"by turns, three pages", two, map[int]int64{0: 4 << 20, 1: 2 << 20}, ""},
		{"mostly on one", two, map[int]int64{0: 8 * g, 1: 2 * g}, "node 0 has 8.00 GiB, want 5.00 GiB on each of nodes 0-1"},
		{"all on one", two, map[int]int64{1: 10 * g}, "node 0 has 0 B, want 5.00 GiB on each of nodes 0-1"},
	} {
		if got := placement.Differs(c.want, c.got); got != c.says {
			t.Errorf("%s: got %q, want %q", c.name, got, c.says)
		}
	}
}
