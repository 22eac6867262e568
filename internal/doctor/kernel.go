package doctor

import "fmt"

// kernelVersion is a version of Linux without what distributions add.
type kernelVersion struct{ major, minor int }

func (v kernelVersion) before(w kernelVersion) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

var (
	leastKernel = kernelVersion{5, 3}  // pidfd_open
	goodKernel  = kernelVersion{6, 1}  // MADV_COLLAPSE
	fillKernel  = kernelVersion{5, 14} // MADV_POPULATE_WRITE
)

func (m *Machine) kernel(n *Need) []Finding {
	return []Finding{m.version(), m.steering(n), m.poolFeature()}
}

func (m *Machine) version() Finding {
	const check = "version"
	text, err := m.read("proc/sys/kernel/osrelease")
	if err != nil {
		return unread(check, err)
	}
	var v kernelVersion
	if _, err := fmt.Sscanf(text, "%d.%d", &v.major, &v.minor); err != nil {
		return unread(check, fmt.Errorf("read kernel version: got %q, want two numbers first", text))
	}
	switch {
	case v.before(leastKernel):
		return fail(check, fmt.Sprintf("Linux %s, want 5.3 or newer", text), "install a newer kernel: processes can't be watched without races (pidfd_open)")
	case v.before(fillKernel):
		return warn(check, fmt.Sprintf("Linux %s: pages are touched one by one (MADV_POPULATE_WRITE came with 5.14) and not merged (MADV_COLLAPSE came with 6.1)", text),
			"install a newer kernel, or mount a tmpfs with huge pages")
	case v.before(goodKernel):
		return warn(check, fmt.Sprintf("Linux %s: pages are not merged on request (MADV_COLLAPSE came with 6.1)", text),
			"install a newer kernel, or mount a tmpfs with huge pages")
	}
	return ok(check, "Linux %s", text)
}

// steering tries what --steering would get.
func (m *Machine) steering(n *Need) Finding {
	const check = "steering"
	// With one frontend there is nothing to steer; what more would get is of interest all the same.
	state, err := m.Steer(n.Steering, max(n.Frontends, 2))
	switch {
	case err != nil && n.Frontends > 1:
		return fail(check, err.Error(), "take --steering auto, or permit eBPF; a service takes AmbientCapabilities=CAP_BPF", bpfCommand)
	case err != nil:
		return warn(check, err.Error(), "with one frontend nothing is steered; for more take --steering auto")
	case state.Fallback && n.Frontends > 1:
		return warn(check, fmt.Sprintf("%s by %s: %s", state.Policy, state.Mechanism, state.Why),
			"permit eBPF, so that connections that come together are spread exactly; a service takes AmbientCapabilities=CAP_BPF", bpfCommand)
	case n.Frontends < 2:
		return ok(check, "one frontend, nothing to steer; more would get %s by %s", state.Policy, state.Mechanism)
	}
	return ok(check, "%s by %s", state.Policy, state.Mechanism)
}

// bpfCommand gives a binary the capability by itself; it must be repeated when the file is replaced.
const bpfCommand = "setcap cap_bpf=ep \"$(command -v rankd)\""

func (m *Machine) poolFeature() Finding {
	const check = "memfd of huge pages"
	if err := m.Pool(); err != nil {
		return warn(check, err.Error(), "slabs can't lie on pages of the hugetlb pool; without a pool they need not")
	}
	return ok(check, "can be made")
}
