package pjrt

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	machine "rankd/internal/topology"
)

// pinning is the set of processors that the plugin's threads may use.
type pinning struct {
	set     unix.CPUSet
	count   int
	changed bool // differs from what this process has
}

// plan works out the processors from the wanted ones (none: those of this process) and a bound on their number (0: none).
// available is the number of processors that the bound could have used.
func plan(cpus []int, threads int) (p pinning, available int, err error) {
	var current unix.CPUSet
	if err := unix.SchedGetaffinity(0, &current); err != nil {
		return p, 0, fmt.Errorf("read CPU affinity: %w", err)
	}
	base := current
	if len(cpus) > 0 {
		base.Zero()
		for _, c := range cpus {
			if c < 0 || c >= len(base)*64 || !current.IsSet(c) {
				return p, 0, wrong("choose CPU %d: want some of those that this process may use, which are %s", c, numbers(&current))
			}
			base.Set(c)
		}
	}
	available = base.Count()
	for c := 0; c < len(base)*64; c++ {
		if base.IsSet(c) && (threads == 0 || p.count < threads) {
			p.set.Set(c)
			p.count++
		}
	}
	p.changed = p.set != current
	return p, available, nil
}

// numbers lists a set of processors.
func numbers(set *unix.CPUSet) (list machine.Set) {
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list
}

// apply locks the calling goroutine to its thread and gives that thread the processors; undo gives back both. Threads that
// native code starts meanwhile inherit them. The Go runtime starts its own threads elsewhere while a goroutine is locked.
func (p *pinning) apply() (undo func(), err error) {
	runtime.LockOSThread()
	if !p.changed {
		return runtime.UnlockOSThread, nil
	}
	var before unix.CPUSet
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		err = unix.SchedSetaffinity(0, &p.set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("set CPU affinity: %w", err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		} // else the thread stays locked and ends with its goroutine rather than serving others on the wrong processors
	}, nil
}
