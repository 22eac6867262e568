package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rankd/internal/topology"
)

// Lines describes a plan for people: who runs where, what lies where, and the notes.
func (p *Plan) Lines() []string {
	var lines []string
	for i := 0; i < len(p.Frontends); {
		first := i
		for i < len(p.Frontends) && p.Frontends[i].CPUs.Equal(p.Frontends[first].CPUs) && p.Frontends[i].Copy == p.Frontends[first].Copy {
			i++
		}
		who := fmt.Sprintf("frontend %d", first)
		if i-first > 1 {
			who = fmt.Sprintf("frontends %d-%d", first, i-1)
		}
		line := who + ": " + onCPUs(p.Frontends[first].CPUs)
		if p.Tables.Mode == LocalCopies {
			line += fmt.Sprintf(", tables of node %d", p.Tables.Nodes[p.Frontends[first].Copy])
		}
		lines = append(lines, line)
	}
	lines = append(lines, "device owner: "+onCPUs(p.Owner.CPUs), "tables: "+p.Tables.String(), "slabs: "+p.Slabs.String())
	for _, n := range p.Notes {
		lines = append(lines, "note: "+n)
	}
	return lines
}

func onCPUs(s topology.Set) string {
	if len(s) == 0 {
		return "not pinned"
	}
	return "CPUs " + s.String()
}

// ByNode writes bytes by node, such as "node 0: 1.50 GiB, node 1: 1.50 GiB"; "-" for nothing.
func ByNode(nodes map[int]int64) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		parts = append(parts, fmt.Sprintf("node %d: %s", n, size(nodes[n])))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
