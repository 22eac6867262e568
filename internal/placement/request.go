package placement

import (
	"fmt"
	"strings"

	"rankd/internal/topology"
)

// Auto is the default of both flags.
const Auto = "auto"

// The other values of --tables-placement, besides node=N.
const (
	interleave  = "interleave"
	localCopies = "local-copies"
)

// Request is what a person asked for, and what the server needs.
type Request struct {
	Placement string // --placement: auto, node=N[,M] or cpus=LIST
	Tables    string // --tables-placement: auto, interleave, local-copies or node=N
	Frontends int
	OwnerCPUs topology.Set // --owner-cpus; empty: not given

	OnHost        bool         // batches are computed by the processors of the machine
	DeviceThreads int          // --device-threads; 0: as many as CPUs
	Devices       topology.Set // the nodes of its accelerators; empty: not known

	TableBytes, SlabBytes int64 // 0: not known
}

// place is what --placement names.
type place struct {
	text     string
	explicit bool         // not auto
	cpus     topology.Set // all that it names
	nodes    topology.Set // of these CPUs
}

// parsePlace reads --placement.
func parsePlace(text string, m *topology.Machine, a *topology.Allowance) (place, error) {
	p := place{text: text, explicit: true}
	kind, list, _ := strings.Cut(text, "=")
	var err error
	switch {
	case text == Auto:
		p.explicit, p.cpus = false, a.CPUs
	case kind == "node" && text != kind:
		p.cpus, err = cpusOfNodes(list, m, a)
	case kind == "cpus" && text != kind:
		p.cpus, err = cpusOfList(list, m, a)
	default:
		err = fmt.Errorf("got %q, want auto, node=N[,M] or cpus=LIST", text)
	}
	if err != nil {
		return p, fmt.Errorf("check --placement: %w", err)
	}
	p.nodes = m.NodesOf(p.cpus)
	return p, nil
}

func cpusOfNodes(text string, m *topology.Machine, a *topology.Allowance) (cpus topology.Set, err error) {
	nodes, err := topology.ParseList(text)
	if err != nil || len(nodes) == 0 {
		return nil, fmt.Errorf("got %q, want nodes such as node=0 or node=0-1", "node="+text)
	}
	usable := m.NodesOf(a.CPUs)
	for _, number := range nodes {
		switch n := m.Node(number); {
		case n == nil:
			return nil, fmt.Errorf("got node %d, want some of %s: there are no others", number, usable)
		case len(n.CPUs) == 0:
			return nil, fmt.Errorf("got node %d, which has no CPUs, want some of %s", number, usable)
		case !usable.Has(number):
			return nil, fmt.Errorf("got node %d with CPUs %s, want nodes with CPUs %s", number, n.CPUs, within(a, n.CPUs))
		default:
			cpus = cpus.Or(n.CPUs.And(a.CPUs))
		}
	}
	return cpus, nil
}

func cpusOfList(text string, m *topology.Machine, a *topology.Allowance) (topology.Set, error) {
	cpus, err := topology.ParseList(text)
	if err != nil || len(cpus) == 0 {
		return nil, fmt.Errorf("got %q, want CPUs such as cpus=0-3,8", "cpus="+text)
	}
	return cpus, CheckCPUs(cpus, m, a)
}

// CheckCPUs refuses CPUs on which a process may not run, and says why it may not.
func CheckCPUs(cpus topology.Set, m *topology.Machine, a *topology.Allowance) error {
	if unknown := cpus.Without(m.Present); len(unknown) > 0 {
		return fmt.Errorf("got CPU %s, want some of %s: there are no others", unknown, a.CPUs)
	}
	if offline := cpus.Without(m.Online); len(offline) > 0 {
		return fmt.Errorf("got CPU %s, which is offline, want some of %s", offline, a.CPUs)
	}
	if outside := cpus.Without(a.CPUs); len(outside) > 0 {
		return fmt.Errorf("got CPU %s, want CPUs %s", outside, within(a, outside))
	}
	return nil
}

// within says which bound the CPUs lie outside of.
func within(a *topology.Allowance, cpus topology.Set) string {
	if a.Group != "" && len(cpus.Without(a.Cpuset)) > 0 {
		return fmt.Sprintf("of the control group's cpuset, which are %s (%s)", a.Cpuset, a.Group)
	}
	return fmt.Sprintf("of this process's affinity, which are %s (see taskset)", a.Affinity)
}
