package main

import (
	"fmt"
	"strconv"
	"strings"

	"rankd/internal/config"
	"rankd/internal/doctor"
	"rankd/internal/placement"
	"rankd/internal/topology"
)

// placement tells what the machine has, and where a server would run and its memory lie.
func (x *examination) placement(n *doctor.Need) []doctor.Finding {
	root, process := x.machine.Root, "self"
	if x.server != nil {
		process = strconv.Itoa(x.server.PID)
	}
	m, err := topology.Read(root)
	if err != nil {
		return []doctor.Finding{finding("topology", doctor.Warn, err.Error(), "nothing is known about processors and nodes: mount /sys and /proc")}
	}
	list := []doctor.Finding{finding("topology", doctor.OK, describeMachine(m), "")}
	plan, err := x.config.place(root, process, x.bundle)
	if err != nil {
		for _, e := range config.Leaves(err) {
			list = append(list, finding("plan", doctor.Fail, e.Error(), "see the topology above; lscpu and numactl --hardware tell more"))
		}
		return list
	}
	list = append(list, finding("plan", doctor.OK, strings.Join(plan.Lines(), "\n"), ""))
	if !n.Known || n.TablesAt != "" {
		return list
	}
	for _, c := range plan.Tables.Copies() {
		if err := placement.Room(m, c.Nodes, n.Tables); err != nil {
			state := doctor.Fail
			if plan.AskedTables == placement.Auto { // the kernel takes the rest from other nodes
				state = doctor.Warn
			}
			list = append(list, finding("room on nodes", state, err.Error()+" for tables", "free memory there, or choose other nodes with --tables-placement"))
		}
	}
	return list
}

func describeMachine(m *topology.Machine) string {
	text := fmt.Sprintf("%d CPUs (%s), %d cores, %d packages", len(m.Online), m.Online, m.Cores(m.Online), m.Packages())
	for i := range m.Nodes {
		n := &m.Nodes[i]
		text += fmt.Sprintf("\nnode %d: %s of memory, %s available", n.Number, config.Bytes(n.Memory).Human(), config.Bytes(n.Available).Human())
		if len(n.CPUs) > 0 {
			text += ", CPUs " + n.CPUs.String()
		}
	}
	return text
}
