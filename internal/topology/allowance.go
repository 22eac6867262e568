package topology

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rankd/internal/cgroup"
)

// Allowance is what a process may use of a machine.
type Allowance struct {
	CPUs  Set // on which it may run: online, in the affinity and in the cpuset
	Nodes Set // from which it may have memory

	Affinity Set
	Cpuset   Set     // of its control group; nil: it has none
	Group    string  // the directory of the control group that Cpuset is from
	Quota    float64 // CPUs' worth of time that control groups leave; 0: no limit
}

// Allowed reads what a process ("self" or its number) may use. root is empty but for tests.
func Allowed(root, process string, m *Machine) (*Allowance, error) {
	r := reader{root}
	status, err := r.text(filepath.Join("proc", process, "status"))
	if err != nil {
		return nil, fmt.Errorf("read allowed processors: %w", err)
	}
	a := &Allowance{}
	if a.Affinity, err = statusList(status, "Cpus_allowed_list"); err != nil {
		return nil, fmt.Errorf("read allowed processors of process %s: %w", process, err)
	}
	// A kernel without NUMA does not tell of nodes.
	nodes, err := statusList(status, "Mems_allowed_list")
	if err != nil {
		nodes = m.NodeNumbers()
	}
	a.CPUs, a.Nodes = a.Affinity.And(m.Online), nodes.And(m.NodeNumbers())
	a.cpuset(root, process)
	if a.Group != "" {
		a.CPUs = a.CPUs.And(a.Cpuset)
	}
	a.Quota = Quota(root, process)
	return a, nil
}

// Affinity reads the CPUs on which a process may run, as the kernel has them.
func Affinity(root, process string) (Set, error) {
	status, err := reader{root}.text(filepath.Join("proc", process, "status"))
	if err != nil {
		return nil, fmt.Errorf("read affinity of process %s: %w", process, err)
	}
	s, err := statusList(status, "Cpus_allowed_list")
	if err != nil {
		return nil, fmt.Errorf("read affinity of process %s: %w", process, err)
	}
	return s, nil
}

func statusList(status, field string) (Set, error) {
	for line := range strings.Lines(status) {
		if text, found := strings.CutPrefix(line, field+":"); found {
			return ParseList(text)
		}
	}
	return nil, fmt.Errorf("find %s in its status: %w", field, fs.ErrNotExist)
}

// cpuset finds the nearest control group that says which CPUs are allowed. What is effective there has the limits of those above in it.
func (a *Allowance) cpuset(root, process string) {
	for _, l := range cgroup.Levels(root, process, "cpuset") {
		files := []string{"cpuset.cpus.effective"}
		if !l.V2 {
			files = []string{"cpuset.effective_cpus", "cpuset.cpus"}
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(l.Dir, file))
			if err != nil {
				continue
			}
			if s, err := ParseList(string(text)); err == nil && len(s) > 0 {
				a.Cpuset, a.Group = s, l.Dir
				return
			}
		}
	}
}

// Quota is the tightest limit of the control groups above a process on processor time, in CPUs; 0: there is none.
func Quota(root, process string) float64 {
	least := math.Inf(1)
	for _, l := range cgroup.Levels(root, process, "cpu") {
		if cpus, limited := quotaOf(l); limited {
			least = min(least, cpus)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

func quotaOf(l cgroup.Level) (cpus float64, limited bool) {
	read := func(file string) string {
		text, _ := os.ReadFile(filepath.Join(l.Dir, file))
		return strings.TrimSpace(string(text))
	}
	quota, period := read("cpu.cfs_quota_us"), ""
	if l.V2 {
		quota, period, _ = strings.Cut(read("cpu.max"), " ")
	} else {
		period = read("cpu.cfs_period_us")
	}
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 { // "max", -1, or no such file
		return 0, false
	}
	return q / p, true
}
