package doctor

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"rankd/internal/cgroup"
	"rankd/internal/hugemem"
)

// What processes take besides tables and slabs, as docs/configuration.md and docs/operations.md have measured it.
const (
	frontendBytes = 25 << 20
	ownerBytes    = 250 << 20
)

// total is all memory that the server takes and that is not there yet.
func (n *Need) total() int64 {
	return n.pages() + int64(n.Frontends)*frontendBytes + ownerBytes
}

func (n *Need) inWords() string {
	tables := size(n.Tables) + " of tables"
	if n.TablesAt != "" {
		tables = "tables that are there already"
	}
	return fmt.Sprintf("%s, %s of slabs and about %s of processes", tables, size(n.Region), size(n.total()-n.pages()))
}

func (m *Machine) memory(n *Need) []Finding {
	if !n.Known {
		return []Finding{m.freeMemory(n), m.swap(n)}
	}
	return []Finding{m.freeMemory(n), m.cgroupMemory(n), m.swap(n)}
}

func (m *Machine) freeMemory(n *Need) Finding {
	const check = "machine memory"
	available, known := hugemem.Meminfo(m.Root)["MemAvailable"]
	switch {
	case !known:
		return unread(check, fmt.Errorf("read /proc/meminfo: no MemAvailable"))
	case !n.Known:
		return ok(check, "%s available; the model's size is not known", size(available))
	case n.ServerPID != 0:
		return ok(check, "%s available beside the server that runs", size(available))
	case available < n.pages():
		return fail(check, fmt.Sprintf("%s available, want %s", size(available), n.inWords()),
			"free memory, or serve a smaller model: rankd model quantize makes its tables smaller; a smaller last --buckets makes the slabs smaller",
			"ps -eo rss,pid,args --sort=-rss | head")
	case available < n.total():
		return warn(check, fmt.Sprintf("%s available, want %s", size(available), n.inWords()), "free memory: processes may be killed for want of it",
			"ps -eo rss,pid,args --sort=-rss | head")
	}
	return ok(check, "%s available for %s", size(available), n.inWords())
}

func (m *Machine) cgroupMemory(n *Need) Finding {
	const check = "cgroup memory"
	room, _, limited := m.memoryRoom(n)
	switch {
	case !limited:
		return ok(check, "no limit, %s", n.whose())
	case n.ServerPID != 0:
		return ok(check, "%s left to the server that runs", size(room))
	case room < n.total():
		return fail(check, fmt.Sprintf("%s left, %s, want %s", size(room), n.whose(), n.inWords()),
			"raise the memory limit (a container takes --memory); allocating past it does not fail, it has processes killed", m.raiseMemory(n, n.total()-room)...)
	}
	return ok(check, "%s left for %s", size(room), n.inWords())
}

// memoryRoom is what the control groups leave, and the group that leaves least.
func (m *Machine) memoryRoom(n *Need) (room int64, at cgroup.Level, limited bool) {
	room = math.MaxInt64
	for _, l := range cgroup.Levels(m.Root, n.process(), "memory") {
		if left, ok := hugemem.GroupRoom(l); ok && left < room {
			room, at, limited = left, l, true
		}
	}
	return room, at, limited
}

// raiseMemory gives the command that raises the tightest memory limit by some bytes.
func (m *Machine) raiseMemory(n *Need, more int64) []string {
	_, at, limited := m.memoryRoom(n)
	if !limited {
		return nil
	}
	file := "memory.limit_in_bytes"
	if at.V2 {
		file = "memory.max"
	}
	dir := strings.TrimPrefix(at.Dir, m.Root)
	limit, err := m.number(dir, file)
	if err != nil {
		return nil
	}
	const step = 64 << 20
	limit = (limit + more + step - 1) / step * step
	if unit := filepath.Base(dir); strings.HasSuffix(unit, ".service") || strings.HasSuffix(unit, ".slice") || strings.HasSuffix(unit, ".scope") {
		return []string{fmt.Sprintf("systemctl set-property %s MemoryMax=%d", unit, limit)}
	}
	return []string{fmt.Sprintf("echo %d > %s/%s", limit, dir, file)}
}

func (m *Machine) swap(n *Need) Finding {
	const check = "swap"
	total := hugemem.Meminfo(m.Root)["SwapTotal"]
	switch {
	case total == 0:
		return ok(check, "off")
	case m.mayLock(n):
		return ok(check, "%s, but tables and slabs can be locked in memory", size(total))
	}
	return warn(check, fmt.Sprintf("%s, and tables and slabs can't be locked in memory", size(total)),
		"raise the limit on locked memory (below), or turn swap off: a row that was swapped out must be read back while its request waits", "swapoff -a")
}
