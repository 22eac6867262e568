package main

import (
	"fmt"
	"strconv"
	"strings"

	"rankd/internal/config"
	"rankd/internal/doctor"
	"rankd/internal/placement"
	"rankd/internal/procmem"
	"rankd/internal/topology"
	"rankd/supervisor"
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
	if x.server != nil {
		list = append(list, effectivePlacement(x.server, plan, supervisor.RunDir(x.config.supervisor.RunDir)))
	}
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

// effectivePlacement compares the plan with where the kernel has the processes and the tables of a server that runs.
func effectivePlacement(s *supervisor.State, plan *placement.Plan, runDir string) doctor.Finding {
	const check = "effective"
	var wrong []string
	for _, c := range s.Children {
		want := plan.Owner.CPUs
		if c.Role == "frontend" && c.Index < len(plan.Frontends) {
			want = plan.Frontends[c.Index].CPUs
		}
		got, err := topology.Affinity("", strconv.Itoa(c.PID))
		if err == nil && len(want) > 0 && !got.Equal(want) {
			wrong = append(wrong, fmt.Sprintf("%s %d, process %d, runs on CPUs %s, want %s", c.Role, c.Index, c.PID, got, want))
		}
	}
	fds, copies := s.TableFDs(), plan.Tables.Copies()
	if len(fds) > 0 && len(fds) != len(copies) {
		wrong = append(wrong, fmt.Sprintf("the tables are there %d times, want %d", len(fds), len(copies)))
	}
	for i := range min(len(fds), len(copies)) {
		file, _ := fileOf(s, fds[i])
		nodes, err := procmem.NodesOf(strconv.Itoa(s.PID), file)
		if err != nil { // a kernel without NUMA, or a server of somebody else
			continue
		}
		if why := placement.Differs(copies[i], nodes); why != "" {
			wrong = append(wrong, "tables: "+why)
		}
	}
	if len(wrong) == 0 {
		return finding(check, doctor.OK, "processes and tables of the server that runs are where this plan has them", "")
	}
	return finding(check, doctor.Warn, strings.Join(wrong, "\n"), "start the server again with these flags, and see what it has now",
		fmt.Sprintf("rankd inspect placement --run-dir %s --instance %s", runDir, s.Instance))
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
