package topology_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
	"rankd/internal/topology"
	"rankd/internal/topology/topologytest"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// TestMachines lays out a machine, with more lines if the case has some, and writes what is read of it.
func TestMachines(t *testing.T) {
	datadriven.RunTest(t, "testdata/machines.td", func(t *testing.T, d *datadriven.TestData) string {
		root := topologytest.Lay(t, d.Cmd, strings.Split(strings.TrimSpace(d.Input), "\n")...)
		m, err := topology.Read(root)
		if err != nil {
			return err.Error()
		}
		a, err := topology.Allowed(root, "self", m)
		if err != nil {
			return err.Error()
		}
		var out strings.Builder
		fmt.Fprintf(&out, "cpus %s of %s, %d packages, %d cores\n", m.Online, m.Present, m.Packages(), m.Cores(m.Online))
		for _, n := range m.Nodes {
			fmt.Fprintf(&out, "node %d cpus %q, %d of %d MiB, memory near %d, distance", n.Number, n.CPUs, n.Available>>20, n.Memory>>20,
				m.MemoryNear(n.Number, a.Nodes))
			for _, other := range m.NodeNumbers() {
				fmt.Fprintf(&out, " %d", n.Distance[other])
			}
			out.WriteString("\n")
		}
		for _, n := range m.Nodes {
			if n.Pool > 0 {
				fmt.Fprintf(&out, "node %d has %d MiB of reserved huge pages free\n", n.Number, n.Pool>>20)
			}
		}
		last := m.CPUs[len(m.CPUs)-1]
		fmt.Fprintf(&out, "cpu %d package %d core %d siblings %s node %d\n", last.Number, last.Package, last.Core, last.Siblings, last.Node)
		fmt.Fprintf(&out, "allowed %s on nodes %s, memory of %s, quota %.2f\n", a.CPUs, m.NodesOf(a.CPUs), a.Nodes, a.Quota)
		if a.Group != "" {
			fmt.Fprintf(&out, "cpuset %s of %s\n", a.Cpuset, strings.TrimPrefix(a.Group, root))
		}
		if list := topology.Accelerators(root, "cuda"); len(list) > 0 {
			fmt.Fprintf(&out, "accelerators %v on nodes %s\n", list, topology.NodesOfAccelerators(list))
		}
		return out.String()
	})
}

func TestI3EveryOnlineCPUIsInOneNode(t *testing.T) {
	for _, name := range topologytest.Names(t) {
		for _, more := range []string{"", "kernel without NUMA"} {
			m, err := topology.Read(topologytest.Lay(t, name, more))
			if err != nil {
				t.Fatal(err)
			}
			var all []int
			for _, n := range m.Nodes {
				all = append(all, n.CPUs...)
			}
			if slices.Sort(all); !slices.Equal(all, []int(m.Online)) {
				t.Errorf("%s %s: got CPUs %v in nodes, want %v", name, more, all, m.Online)
			}
			for _, c := range m.CPUs {
				if !m.Node(c.Node).CPUs.Has(c.Number) || !c.Siblings.Has(c.Number) || len(c.Siblings.Without(m.Online)) > 0 {
					t.Errorf("%s %s: got %+v", name, more, c)
				}
			}
		}
	}
}

// TestThisMachine compares with what the kernel's own calls say.
func TestThisMachine(t *testing.T) {
	m, err := topology.Read("")
	if err != nil {
		t.Fatal(err)
	}
	a, err := topology.Allowed("", "self", m)
	if err != nil {
		t.Fatal(err)
	}
	set := unix.NewCPUSet(topology.MaxNumber + 1)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Online {
		if set.IsSet(c) != a.Affinity.Has(c) {
			t.Errorf("CPU %d: affinity has it: got %v, want %v", c, a.Affinity.Has(c), set.IsSet(c))
		}
	}
	if len(a.CPUs) == 0 || len(a.Nodes) == 0 || a.CPUs.Without(m.Online) != nil {
		t.Errorf("got allowance %+v on a machine with CPUs %s", a, m.Online)
	}
	if affinity, err := topology.Affinity("", "self"); err != nil || !affinity.Equal(a.Affinity) {
		t.Errorf("affinity: got %v, %v, want %v", affinity, err, a.Affinity)
	}
	if n := m.Nodes[0]; n.Memory <= 0 || n.Available <= 0 || n.Available > n.Memory {
		t.Errorf("node %d: got %d of %d bytes", n.Number, n.Available, n.Memory)
	}
}

func TestWhatIsMissingOrDamagedIsAnError(t *testing.T) {
	if _, err := topology.Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no files: got %v, want fs.ErrNotExist", err)
	}
	root := topologytest.Lay(t, "xeon-4s")
	m, err := topology.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Allowed(root, "4711", m); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: got %v, want fs.ErrNotExist", err)
	}
	for path, text := range map[string]string{
		"sys/devices/system/cpu/online":         "zero",
		"sys/devices/system/node/online":        "0-",
		"sys/devices/system/node/node1/cpulist": "1,,2",
	} {
		root := topologytest.Lay(t, "xeon-4s")
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := topology.Read(root); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names it", path, err)
		}
	}
}

func TestI1Lists(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n": "", "0": "0", "0-3,8": "0-3,8", "8,0-3,2": "0-3,8", "5,4,3": "3-5", "0,2,4": "0,2,4", "7-7": "7", "8191": "8191", "00,01": "0-1",
	} {
		if s, err := topology.ParseList(text); err != nil || s.String() != want {
			t.Errorf("%q: got %q, %v, want %q", text, s, err, want)
		}
	}
	for _, text := range []string{"x", ",", "1,", ",1", "1,,2", "3-1", "-1", "1-", "-", "+1", "1 2", "1, 2", "8192", "99999999999999999999", "0-99999", "0x1", "1.5", "0-31:1/2"} {
		if s, err := topology.ParseList(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, s)
		}
	}
	if _, err := topology.ParseList(strings.Repeat("0-8191,", 100) + "0"); err == nil {
		t.Error("the same range a hundred times: want an error")
	}
}

func TestSets(t *testing.T) {
	a, b := topology.SetOf(3, 1, 2, 3), topology.SetOf(2, 5)
	for what, got := range map[string][2]topology.Set{
		"made": {a, {1, 2, 3}}, "and": {a.And(b), {2}}, "or": {a.Or(b), {1, 2, 3, 5}}, "without": {a.Without(b), {1, 3}}, "none": {a.Without(a), nil},
	} {
		if !got[0].Equal(got[1]) {
			t.Errorf("%s: got %v, want %v", what, got[0], got[1])
		}
	}
	if !a.Has(2) || a.Has(0) || topology.Set(nil).Has(0) {
		t.Errorf("%v has 2, not 0", a)
	}
	text, err := json.Marshal(struct{ CPUs topology.Set }{a})
	if err != nil || string(text) != `{"CPUs":"1-3"}` {
		t.Errorf("JSON: got %s, %v", text, err)
	}
	var back struct{ CPUs topology.Set }
	if err := json.Unmarshal(text, &back); err != nil || !back.CPUs.Equal(a) {
		t.Errorf("from JSON: got %v, %v", back, err)
	}
}

func FuzzI1ParseList(f *testing.F) {
	for _, text := range []string{"0-3,8", "", "1-0", "0-8191", "1,,2", "4-4,4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := topology.ParseList(text)
		if err != nil {
			return
		}
		if !slices.IsSorted(s) || len(slices.Compact(slices.Clone(s))) != len(s) {
			t.Fatalf("%q: got %v, want it ascending and without repeats", text, s)
		}
		if back, err := topology.ParseList(s.String()); err != nil || !back.Equal(s) {
			t.Fatalf("%q: %q gives %v, %v, want %v", text, s, back, err, s)
		}
	})
}
