package doctor

import (
	"fmt"

	"rankd/internal/topology"
)

func (m *Machine) processors(n *Need) []Finding {
	t, err := topology.Read(m.Root)
	var a *topology.Allowance
	if err == nil {
		a, err = topology.Allowed(m.Root, n.process(), t)
	}
	if err != nil {
		return []Finding{unread("allowed", err)}
	}
	return []Finding{m.allowedFinding(n, a), m.ownerCPUs(n, a), m.quota(n, a)}
}

func (m *Machine) allowedFinding(n *Need, a *topology.Allowance) Finding {
	const check = "allowed"
	found := fmt.Sprintf("%d (%s), %s", len(a.CPUs), a.CPUs, n.whose())
	if n.Frontends >= len(a.CPUs) && n.Frontends > 1 {
		return warn(check, fmt.Sprintf("%s, want more than the %d frontends, since the device owner needs one too", found, n.Frontends),
			fmt.Sprintf("set --frontends to at most %d, or allow more processors", max(len(a.CPUs)-1, 1)))
	}
	return ok(check, "%s; frontends: %d", found, n.Frontends)
}

func (m *Machine) ownerCPUs(n *Need, a *topology.Allowance) Finding {
	const check = "owner-cpus"
	wanted := topology.SetOf(n.OwnerCPUs...)
	if len(wanted) == 0 {
		return ok(check, "not set: the device owner runs on all of them")
	}
	if others := wanted.Without(a.CPUs); len(others) > 0 {
		return fail(check, fmt.Sprintf("processor %s is not one that the server may use", others), "name others with --owner-cpus, or allow it",
			"taskset -cp "+n.process())
	}
	return ok(check, "%s, which the server may use", wanted)
}

// quota looks at the tightest limit of the control groups on processor time.
func (m *Machine) quota(n *Need, a *topology.Allowance) Finding {
	const check = "cgroup quota"
	switch {
	case a.Quota == 0:
		return ok(check, "none, %s", n.whose())
	case a.Quota >= float64(len(a.CPUs)):
		return ok(check, "%.2f processors, %s, as many as there are", a.Quota, n.whose())
	}
	return warn(check, fmt.Sprintf("%.2f processors, %s: when they are used up, every process stands still for the rest of the period", a.Quota, n.whose()),
		"give the server whole processors instead of a share of time; a service takes AllowedCPUs= and an empty CPUQuota=, a container --cpuset-cpus")
}
