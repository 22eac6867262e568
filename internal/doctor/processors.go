package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"rankd/internal/cgroup"
)

func (m *Machine) processors(n *Need) []Finding {
	allowed, err := m.allowed(n.process())
	if err != nil {
		return []Finding{unread("allowed", err)}
	}
	return []Finding{m.allowedFinding(n, allowed), m.ownerCPUs(n, allowed), m.quota(n, len(allowed))}
}

// allowed lists the processors that a process may run on, by its affinity and its cpuset.
func (m *Machine) allowed(process string) (map[int]bool, error) {
	text, err := m.status(process, "Cpus_allowed_list")
	if err != nil {
		return nil, err
	}
	set := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || last < first || last > 1<<16 {
			return nil, fmt.Errorf("read allowed processors: got %q, want a list such as 0-3,8", text)
		}
		for c := first; c <= last; c++ {
			set[c] = true
		}
	}
	return set, nil
}

func (m *Machine) allowedFinding(n *Need, allowed map[int]bool) Finding {
	const check = "allowed"
	text, _ := m.status(n.process(), "Cpus_allowed_list")
	found := fmt.Sprintf("%d (%s), %s", len(allowed), text, n.whose())
	if n.Frontends >= len(allowed) && n.Frontends > 1 {
		return warn(check, fmt.Sprintf("%s, want more than the %d frontends, since the device owner needs one too", found, n.Frontends),
			fmt.Sprintf("set --frontends to at most %d, or allow more processors", max(len(allowed)-1, 1)))
	}
	return ok(check, "%s; frontends: %d", found, n.Frontends)
}

func (m *Machine) ownerCPUs(n *Need, allowed map[int]bool) Finding {
	const check = "owner-cpus"
	if len(n.OwnerCPUs) == 0 {
		return ok(check, "not set: the device owner runs on all of them")
	}
	for _, c := range n.OwnerCPUs {
		if !allowed[c] {
			return fail(check, fmt.Sprintf("processor %d is not one that the server may use", c), "name others with --owner-cpus, or allow it",
				"taskset -cp "+n.process())
		}
	}
	return ok(check, "%v, which the server may use", n.OwnerCPUs)
}

// quota finds the tightest limit of the control groups on processor time.
func (m *Machine) quota(n *Need, allowed int) Finding {
	const check = "cgroup quota"
	least := math.Inf(1)
	for _, l := range cgroup.Levels(m.Root, n.process(), "cpu") {
		if cpus, limited := m.quotaOf(l); limited {
			least = min(least, cpus)
		}
	}
	switch {
	case math.IsInf(least, 1):
		return ok(check, "none, %s", n.whose())
	case least >= float64(allowed):
		return ok(check, "%.2f processors, %s, as many as there are", least, n.whose())
	}
	return warn(check, fmt.Sprintf("%.2f processors, %s: when they are used up, every process stands still for the rest of the period", least, n.whose()),
		"give the server whole processors instead of a share of time; a service takes AllowedCPUs= and an empty CPUQuota=, a container --cpuset-cpus")
}

func (m *Machine) quotaOf(l cgroup.Level) (cpus float64, limited bool) {
	var quota, period string
	if l.V2 {
		text, _ := m.readBelow(l.Dir, "cpu.max")
		quota, period, _ = strings.Cut(text, " ")
	} else {
		quota, _ = m.readBelow(l.Dir, "cpu.cfs_quota_us")
		period, _ = m.readBelow(l.Dir, "cpu.cfs_period_us")
	}
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 { // "max", -1, or no such file
		return 0, false
	}
	return q / p, true
}
