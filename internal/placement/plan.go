package placement

import (
	"errors"
	"fmt"
	"math"

	"rankd/internal/topology"
)

// Plan says where everything is to be.
type Plan struct {
	Asked       string // --placement
	AskedTables string // --tables-placement

	CPUs  topology.Set // that the server uses
	Nodes topology.Set // of these CPUs

	Frontends []Frontend
	Owner     Owner
	Tables    Memory
	Slabs     Memory

	Notes []string // why something is not as one may expect
}

// Frontend is where one frontend runs.
type Frontend struct {
	CPUs topology.Set // nil: not pinned
	Node int          // -1: several, or it is not pinned
	Copy int          // of the tables, which it reads: an index in Memory.Copies
}

// Owner is where the device owner runs.
type Owner struct {
	CPUs topology.Set // nil: not pinned
}

// Make decides. The errors are joined, one for each mistake.
func Make(r Request, m *topology.Machine, a *topology.Allowance) (*Plan, error) {
	at, err := parsePlace(r.Placement, m, a)
	if err != nil {
		_, err2 := parseTables(r.Tables, m, a)
		return nil, errors.Join(err, err2)
	}
	p := &Plan{Asked: r.Placement, AskedTables: r.Tables, CPUs: at.cpus, Nodes: at.nodes}
	if at.explicit && r.Frontends > len(at.cpus) {
		err = fmt.Errorf("check --frontends: got %d, want at most %d: --placement %s has no more CPUs", r.Frontends, len(at.cpus), r.Placement)
	}
	if wrong := CheckCPUs(r.OwnerCPUs, m, a); wrong != nil {
		err = errors.Join(err, fmt.Errorf("check --owner-cpus: %w", wrong))
	}
	p.spread(r, at, m)
	p.placeOwner(r, at, m)
	err2 := p.placeTables(r, m, a)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	p.placeSlabs(r, m, a)
	p.noteQuota(r, a)
	return p, nil
}

// Blind is the plan for a machine that does not tell of itself: nothing is pinned or placed.
func Blind(r Request, why error) *Plan {
	p := &Plan{Asked: r.Placement, AskedTables: r.Tables, Tables: Memory{Mode: Anywhere}, Slabs: Memory{Mode: Anywhere}}
	for range r.Frontends {
		p.Frontends = append(p.Frontends, Frontend{Node: -1})
	}
	p.note("processors and nodes are not known: %v", why)
	return p
}

// note adds a sentence for people.
func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// spread gives the frontends their CPUs.
func (p *Plan) spread(r Request, at place, m *topology.Machine) {
	p.Frontends = make([]Frontend, r.Frontends)
	taken := make([]int, len(at.nodes))
	single := len(at.nodes) == 1
	each := !single && r.Frontends >= len(at.nodes)
	if !single && !each {
		p.note("--frontends %d is fewer than the %d nodes %s: each frontend runs on all of them", r.Frontends, len(at.nodes), at.nodes)
	}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		f.Node = -1
		switch {
		case each:
			n := m.Node(at.nodes[leastTaken(taken, at, m)])
			f.Node, f.CPUs = n.Number, n.CPUs.And(at.cpus)
		case single:
			f.Node = at.nodes[0]
		}
		if !each && at.explicit {
			f.CPUs = at.cpus
		}
	}
}

// leastTaken finds the node with the fewest frontends for its CPUs, and takes a place there.
func leastTaken(taken []int, at place, m *topology.Machine) int {
	best, least := 0, math.Inf(1)
	for i, number := range at.nodes {
		load := float64(taken[i]+1) / float64(len(m.Node(number).CPUs.And(at.cpus)))
		if load < least {
			best, least = i, load
		}
	}
	taken[best]++
	return best
}

func (p *Plan) placeOwner(r Request, at place, m *topology.Machine) {
	if at.explicit {
		p.Owner.CPUs = at.cpus
	}
	switch {
	case len(r.OwnerCPUs) > 0:
		p.Owner.CPUs = r.OwnerCPUs
		return
	case len(m.Nodes) == 1 || r.OnHost || len(r.Devices) == 0:
		return
	case len(r.Devices) > 1:
		p.note("accelerators are on the nodes %s, so the node of the one in use is not known: name CPUs of that node with --owner-cpus", r.Devices)
		return
	}
	n := m.Node(r.Devices[0])
	near := topology.Set(nil)
	if n != nil {
		near = n.CPUs.And(at.cpus)
	}
	if len(near) == 0 {
		p.note("the accelerator is on node %d, which has no CPU of --placement %s: the device owner runs on another", r.Devices[0], r.Placement)
		return
	}
	p.Owner.CPUs = near
}

// noteQuota tells that the time which control groups leave is less than the threads of a device that is the processors could use.
// The processes themselves take it into account: the Go runtime reads it.
func (p *Plan) noteQuota(r Request, a *topology.Allowance) {
	cpus := p.CPUs
	if len(p.Owner.CPUs) > 0 {
		cpus = p.Owner.CPUs
	}
	threads := r.DeviceThreads
	if threads == 0 {
		threads = len(cpus)
	}
	if fitting := int(math.Ceil(a.Quota)); r.OnHost && a.Quota > 0 && fitting < threads {
		p.note("control groups leave the time of %.2f CPUs, which %d threads of the device use up at once: set --device-threads %d", a.Quota, threads, fitting)
	}
}
