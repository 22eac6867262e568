package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"rankd/internal/config"
	"rankd/internal/placement"
	"rankd/internal/procmem"
	"rankd/internal/topology"
	"rankd/supervisor"
)

// inspectPlacement shows what the kernel says, process by process: a hung server is seen as well as one that works.
func inspectPlacement(_ *inspectConfig, s *supervisor.State, out io.Writer) error {
	if !s.Alive() {
		return errors.New(about(s))
	}
	m, err := topology.Read("")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "server %s  pid %d  %s\n", s.Instance, s.PID, s.Listen)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		fmt.Fprintf(out, "node %-4d %s of memory, %s available, CPUs %s\n", n.Number, config.Bytes(n.Memory).Human(), config.Bytes(n.Available).Human(), n.CPUs)
	}
	fmt.Fprintf(out, "\n%-14s %8s  %-20s %-10s %-34s %s\n", "process", "pid", "CPUs", "nodes", "tables", "slabs")
	inTables, _ := tableFiles(s)
	ring, _ := fileOf(s, s.RegionFD)
	rows := []supervisor.Child{{Role: "supervisor", PID: s.PID}}
	var gone []error
	for _, c := range append(rows, s.Children...) {
		name := c.Role
		if c.Role == "frontend" {
			name = fmt.Sprintf("frontend %d", c.Index)
		}
		pid := strconv.Itoa(c.PID)
		cpus, err := topology.Affinity("", pid)
		lies, err2 := nodesOf(pid, inTables, ring)
		if err := errors.Join(err, err2); err != nil {
			gone = append(gone, err)
			continue
		}
		fmt.Fprintf(out, "%-14s %8d  %-20s %-10s %-34s %s\n", name, c.PID, cpus, m.NodesOf(cpus), lies[0], lies[1])
	}
	return errors.Join(gone...)
}

// nodesOf tells on which nodes the tables and the slabs lie that a process has mapped.
func nodesOf(pid string, inTables []procmem.File, ring procmem.File) (lies [2]string, err error) {
	nodes, err := procmem.NodesOf(pid, inTables...)
	if errors.Is(err, procmem.ErrNoNUMA) {
		return [2]string{"no NUMA in this kernel", "-"}, nil
	}
	if err != nil {
		return lies, err
	}
	lies[0] = placement.ByNode(nodes)
	if nodes, err = procmem.NodesOf(pid, ring); err != nil {
		return lies, err
	}
	lies[1] = placement.ByNode(nodes)
	return lies, nil
}
