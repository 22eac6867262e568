package supervisor

import (
	"log/slog"
	"strconv"

	"rankd/internal/placement"
	"rankd/internal/topology"
)

// pinnedTo is where the process of a place is to run; nil: wherever the supervisor may.
func (l *loop) pinnedTo(p *place) topology.Set {
	plan := l.deps.Placement
	switch {
	case plan == nil:
		return nil
	case p.role == roleOwner:
		return plan.Owner.CPUs
	case p.index < len(plan.Frontends):
		return plan.Frontends[p.index].CPUs
	}
	return nil
}

// tablesFor is the descriptor of the copy of the tables that a frontend reads.
func (l *loop) tablesFor(p *place) int {
	plan := l.deps.Placement
	if plan == nil || p.index >= len(plan.Frontends) {
		return l.tables.FD
	}
	if i := plan.Frontends[p.index].Copy; i > 0 && i <= len(l.tables.More) {
		return l.tables.More[i-1].FD
	}
	return l.tables.FD
}

// paths are the files of all copies.
func (t *Tables) paths() []string {
	list := []string{t.Memory.Path}
	for _, c := range t.More {
		list = append(list, c.Memory.Path)
	}
	return list
}

// checkPinned reads from the kernel where the process of a place may run, and says so if that is not what it was pinned to.
func (l *loop) checkPinned(p *place) {
	var err error
	if p.cpus, err = topology.Affinity("", strconv.Itoa(p.process.PID)); err != nil {
		return // it is gone again
	}
	if want := l.pinnedTo(p); len(want) > 0 && !p.cpus.Equal(want) {
		l.log.Warn("process does not run where it was placed: CPUs have gone offline, or a cpuset has changed",
			slog.String("child", p.String()), slog.String("cpus", p.cpus.String()), slog.String("want", want.String()))
	}
}

func placementStatus(p *placement.Plan) *PlacementStatus {
	if p == nil {
		return nil
	}
	return &PlacementStatus{Asked: p.Asked, AskedTables: p.AskedTables, Plan: p.Lines(), Notes: p.Notes}
}
