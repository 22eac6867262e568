package placement

import (
	"fmt"
	"strings"

	"rankd/internal/config"
	"rankd/internal/topology"
)

// Mode is how memory is spread over nodes.
type Mode string

// The modes.
const (
	Anywhere    Mode = "anywhere"     // wherever the kernel takes it from
	OnNode      Mode = "node"         // on one node
	Interleaved Mode = "interleave"   // by turns, one huge page each
	LocalCopies Mode = "local-copies" // all of it on each node
)

// Memory is where tables or slabs are to lie.
type Memory struct {
	Mode  Mode         `json:"mode"`
	Nodes topology.Set `json:"nodes,omitempty"` // empty: Anywhere
}

// String reads like "interleave over nodes 0-3".
func (m Memory) String() string {
	switch m.Mode {
	case OnNode:
		return "node " + m.Nodes.String()
	case Interleaved:
		return "interleave over nodes " + m.Nodes.String()
	case LocalCopies:
		return "local-copies on nodes " + m.Nodes.String()
	}
	return string(m.Mode)
}

// Copy is one of the times that the memory is there.
type Copy struct {
	Nodes topology.Set // empty: wherever the kernel takes it from
	Label string       // for names of files: equal for equal nodes; empty: anywhere
}

// Copies lists the memory once, or once a node.
func (m Memory) Copies() []Copy {
	switch m.Mode {
	case OnNode, Interleaved:
		return []Copy{copyOn(m.Nodes)}
	case LocalCopies:
		var list []Copy
		for _, n := range m.Nodes {
			list = append(list, copyOn(topology.Set{n}))
		}
		return list
	}
	return []Copy{{}}
}

func copyOn(nodes topology.Set) Copy {
	return Copy{Nodes: nodes, Label: "nodes" + strings.ReplaceAll(nodes.String(), ",", "_")}
}

// OnNodes is memory on some nodes: by turns, if they are several; anywhere, if there are none.
func OnNodes(nodes topology.Set) Memory {
	if len(nodes) == 0 {
		return Memory{Mode: Anywhere}
	}
	if len(nodes) == 1 {
		return Memory{OnNode, nodes}
	}
	return Memory{Interleaved, nodes}
}

// wish is what --tables-placement asks for.
type wish struct {
	mode Mode
	node int
}

func parseTables(text string, m *topology.Machine, a *topology.Allowance) (wish, error) {
	kind, list, named := strings.Cut(text, "=")
	switch {
	case text == Auto:
		return wish{mode: Anywhere}, nil
	case text == interleave:
		return wish{mode: Interleaved}, nil
	case text == localCopies:
		return wish{mode: LocalCopies}, nil
	case kind != "node" || !named:
		return wish{}, fmt.Errorf("check --tables-placement: got %q, want auto, interleave, local-copies or node=N", text)
	}
	nodes, err := topology.ParseList(list)
	if err != nil || len(nodes) != 1 {
		return wish{}, fmt.Errorf("check --tables-placement: got %q, want one node such as node=0", text)
	}
	var usable topology.Set
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Memory > 0 && a.Nodes.Has(n.Number) {
			usable = append(usable, n.Number)
		}
	}
	switch n := m.Node(nodes[0]); {
	case n == nil:
		err = fmt.Errorf("check --tables-placement: got node %d, want one of %s: there are no others", nodes[0], usable)
	case n.Memory == 0:
		err = fmt.Errorf("check --tables-placement: got node %d, which has no memory, want one of %s", nodes[0], usable)
	case !usable.Has(nodes[0]):
		err = fmt.Errorf("check --tables-placement: got node %d, want one of %s: this process may have no other memory (its cpuset)", nodes[0], usable)
	}
	return wish{OnNode, nodes[0]}, err
}

// near lists the nodes with memory that are nearest to some nodes.
func near(nodes topology.Set, m *topology.Machine, a *topology.Allowance) topology.Set {
	var list []int
	for _, n := range nodes {
		if with := m.MemoryNear(n, a.Nodes); with >= 0 {
			list = append(list, with)
		}
	}
	return topology.SetOf(list...)
}

// fits reports whether bytes can lie on one node, whatever lies there now (I4).
func fits(m *topology.Machine, node int, bytes int64) bool {
	return bytes <= m.Node(node).Memory/4*3
}

func (p *Plan) placeTables(r Request, m *topology.Machine, a *topology.Allowance) error {
	want, err := parseTables(r.Tables, m, a)
	if err != nil {
		return err
	}
	used := near(p.Nodes, m, a)
	switch {
	case want.mode == OnNode:
		p.Tables = OnNodes(topology.Set{want.node})
	case want.mode == LocalCopies:
		return p.placeCopies(r, used, m, a)
	case want.mode == Interleaved:
		if p.Tables = OnNodes(used); len(used) == 1 {
			p.note("the CPUs are all near the memory of node %s: there is nothing to interleave with", used)
		}
	case len(near(m.NodeNumbers(), m, a)) < 2 || len(used) == 0:
		p.Tables = Memory{Mode: Anywhere}
	case len(used) == 1 && !fits(m, used[0], r.TableBytes+r.SlabBytes):
		p.Tables = OnNodes(near(m.NodeNumbers(), m, a))
		p.note("the tables are too large for node %s alone: they are interleaved over the nodes %s", used, p.Tables.Nodes)
	default:
		p.Tables = OnNodes(used)
	}
	return nil
}

func (p *Plan) placeCopies(r Request, used topology.Set, m *topology.Machine, a *topology.Allowance) error {
	if len(used) > 1 && r.Frontends < len(p.Nodes) {
		return fmt.Errorf("check --tables-placement: got local-copies with --frontends %d, want at least %d frontends: one for each of the nodes %s that --placement %s uses",
			r.Frontends, len(p.Nodes), p.Nodes, r.Placement)
	}
	for _, n := range used {
		if total := m.Node(n).Memory; r.TableBytes > total {
			return fmt.Errorf("check --tables-placement: got local-copies, want nodes with %s for the tables: node %d has %s",
				size(r.TableBytes), n, size(total))
		}
	}
	p.Tables = Memory{LocalCopies, used}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		at := f.Node
		if at < 0 { // all nodes are near the same memory
			at = p.Nodes[0]
		}
		for k, n := range used {
			if n == m.MemoryNear(at, a.Nodes) { // I2
				f.Copy = k
			}
		}
	}
	return nil
}

func (p *Plan) placeSlabs(r Request, m *topology.Machine, a *topology.Allowance) {
	used := near(p.Nodes, m, a)
	owner := m.NodesOf(p.Owner.CPUs)
	switch {
	case len(near(m.NodeNumbers(), m, a)) < 2 || len(used) == 0:
		p.Slabs = Memory{Mode: Anywhere}
	case len(r.Devices) == 1 && !r.OnHost && m.MemoryNear(r.Devices[0], a.Nodes) >= 0:
		p.Slabs = OnNodes(topology.Set{m.MemoryNear(r.Devices[0], a.Nodes)})
	case len(owner) == 1:
		p.Slabs = OnNodes(near(owner, m, a))
	default:
		p.Slabs = OnNodes(used)
	}
}

// Room reports whether nodes have the bytes free that memory on them takes, in ordinary pages or in their pools of huge ones; the error
// says which has not.
func Room(m *topology.Machine, nodes topology.Set, bytes int64) error {
	if len(nodes) == 0 {
		return nil
	}
	each := bytes / int64(len(nodes))
	for _, number := range nodes {
		n := m.Node(number)
		if n == nil {
			n = &topology.Node{}
		}
		if most := max(n.Available, n.Pool); most < each {
			return fmt.Errorf("node %d has %s available, want %s", number, size(most), size(each))
		}
	}
	return nil
}

func size(bytes int64) string { return config.Bytes(bytes).Human() }

// Differs says how memory lies otherwise than one wanted it; "" if it does not. A small part may: the kernel gives single pages from
// other nodes when one has none at hand, and the first page of turns is one more than the last.
func Differs(want Copy, got map[int]int64) string {
	var total, inside int64
	for node, bytes := range got {
		total += bytes
		if want.Nodes.Has(node) {
			inside += bytes
		}
	}
	if len(want.Nodes) == 0 || total == 0 {
		return ""
	}
	if inside < total-total/50 {
		return fmt.Sprintf("%s of %s lie on nodes %s", size(inside), size(total), want.Nodes)
	}
	share := total / int64(len(want.Nodes))
	for _, n := range want.Nodes {
		if off := got[n] - share; max(off, -off) > max(share/10, hugePage) {
			return fmt.Sprintf("node %d has %s, want %s on each of nodes %s", n, size(got[n]), size(share), want.Nodes)
		}
	}
	return ""
}

// hugePage is the bytes of a turn.
const hugePage = 2 << 20
