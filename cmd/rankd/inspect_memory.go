package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rankd/internal/config"
	"rankd/internal/procmem"
	"rankd/supervisor"
	"rankd/tables"
)

// cost is what a process, or all of them, have in memory, in bytes. Pages that several processes map are divided among them.
type cost struct {
	tables, ring, other int64
	hugetlb             int64 // mapped, not divided: hugetlb pages are in no PSS
}

func inspectMemory(c *inspectConfig, s *supervisor.State, out io.Writer) error {
	if !s.Alive() {
		return inspectRemains(c, s, out)
	}
	inTables, tablesBytes := tableFiles(s)
	ring, ringBytes := fileOf(s, s.RegionFD)
	if s.Phase != supervisor.PhaseServing {
		fmt.Fprintln(out, about(s))
	}
	fmt.Fprintf(out, "tables  %s\nslabs   %s\n\n", config.Bytes(tablesBytes).Human(), config.Bytes(ringBytes).Human())
	fmt.Fprintf(out, "PSS and hugetlb in MiB; pages that several processes map are divided among them\n")
	fmt.Fprintf(out, "%-14s %8s %10s %10s %10s %10s\n", "process", "pid", "tables", "slabs", "other", "hugetlb")
	var sum cost
	var gone []error
	row := func(name string, pid int) {
		list, err := procmem.Read(strconv.Itoa(pid))
		if err != nil {
			gone = append(gone, err)
			return
		}
		var c cost
		for _, m := range list {
			switch {
			case slices.Contains(inTables, m.File):
				c.tables += m.PSS
			case m.File == ring && m.File != (procmem.File{}):
				c.ring += m.PSS
			default:
				c.other += m.PSS
			}
			c.hugetlb += m.Hugetlb
		}
		fmt.Fprintf(out, "%-14s %8d %10.1f %10.1f %10.1f %10.1f\n", name, pid, mib(c.tables), mib(c.ring), mib(c.other), mib(c.hugetlb))
		sum.tables += c.tables
		sum.ring += c.ring
		sum.other += c.other
		sum.hugetlb = max(sum.hugetlb, c.hugetlb) // the same pages in each
	}
	row("supervisor", s.PID)
	frontends := 0
	for _, c := range s.Children {
		name := c.Role
		if c.Role == "frontend" {
			name = fmt.Sprintf("frontend %d", c.Index)
			frontends++
		}
		row(name, c.PID)
	}
	fmt.Fprintf(out, "%-14s %8s %10.1f %10.1f %10.1f %10.1f\n\n", "all", "", mib(sum.tables), mib(sum.ring), mib(sum.other), mib(sum.hugetlb))
	fmt.Fprintf(out, "beyond tables and slabs: %.1f MiB in %d processes, %d of them frontends\n", mib(sum.other), 1+len(s.Children), frontends)
	return errors.Join(gone...)
}

// tableFiles finds the files of all copies of the tables. While they are written, they are among the supervisor's mappings.
func tableFiles(s *supervisor.State) (files []procmem.File, bytes int64) {
	for _, fd := range s.TableFDs() {
		if f, size := fileOf(s, fd); f != (procmem.File{}) {
			files = append(files, f)
			bytes += size
		}
	}
	if s.TablesFD >= 0 {
		return files, bytes
	}
	list, err := procmem.Read(strconv.Itoa(s.PID))
	if err != nil {
		return files, 0
	}
	for _, m := range list {
		if strings.HasPrefix(filepath.Base(m.Path), "rankd."+s.Instance+".tables.") {
			files = append(files, m.File)
			bytes += m.Size
		}
	}
	return files, bytes
}

// inspectRemains shows what a dead server still costs: its tables, until the next start, and processes that did not end with it.
func inspectRemains(c *inspectConfig, s *supervisor.State, out io.Writer) error {
	list, err := tables.List(s.Instance, c.ShmDir)
	if err != nil {
		return err
	}
	var sum int64
	for _, t := range list {
		sum += t.Bytes
		fmt.Fprintf(out, "tables  %s left in memory: %s\n", config.Bytes(t.Bytes).Human(), t.Path)
	}
	for _, child := range s.Orphans() {
		fmt.Fprintf(out, "process %d left running: %s %d\n", child.PID, child.Role, child.Index)
	}
	return fmt.Errorf("%s: %s of tables, %d processes", about(s), config.Bytes(sum).Human(), len(s.Orphans()))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// fileOf names the file behind a descriptor of the supervisor and gives its size; zero if it has none yet.
func fileOf(s *supervisor.State, fd int) (f procmem.File, bytes int64) {
	if fd < 0 {
		return f, 0
	}
	info, err := os.Stat(s.FDPath(fd))
	if err != nil {
		return f, 0
	}
	return procmem.FileOf(info), info.Size()
}
