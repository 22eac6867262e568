package doctor

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"rankd/internal/hugemem"
)

// queueLength is what the supervisor asks for each frontend's accept queue.
const queueLength = 4096

func (m *Machine) limits(n *Need) []Finding {
	return []Finding{m.lockedMemory(n), m.openFiles(n), m.acceptQueue(), m.sharedMemory(n)}
}

// limit is a resource limit of a process. The soft one holds; the process may raise it up to the hard one.
type limit struct{ soft, hard int64 }

// limitOf reads a limit of a process; "unlimited" is the largest number.
func (m *Machine) limitOf(process, name string) (limit, error) {
	text, err := m.read("proc", process, "limits")
	if err != nil {
		return limit{}, err
	}
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, name)
		f := strings.Fields(rest)
		if !found || len(f) < 2 {
			continue
		}
		soft, err := limitNumber(f[0])
		hard, err2 := limitNumber(f[1])
		return limit{soft, hard}, errors.Join(err, err2)
	}
	return limit{}, fmt.Errorf("find %q in /proc/%s/limits: no such line", name, process)
}

func limitNumber(text string) (int64, error) {
	if text == "unlimited" {
		return math.MaxInt64, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// mayLock reports whether tables and slabs can be kept out of swap. Pages of the pool always are. The server does not raise its
// own limit, so the soft one counts.
func (m *Machine) mayLock(n *Need) bool {
	l, err := m.limitOf(n.process(), "Max locked memory")
	return m.capable(n.process(), capIPCLock) || err == nil && l.soft >= n.Tables+n.Region
}

func (m *Machine) lockedMemory(n *Need) Finding {
	const check = "locked memory"
	l, err := m.limitOf(n.process(), "Max locked memory")
	switch {
	case err != nil:
		return unread(check, err)
	case m.capable(n.process(), capIPCLock):
		return ok(check, "no limit: CAP_IPC_LOCK, %s", n.whose())
	case l.soft == math.MaxInt64:
		return ok(check, "no limit, %s", n.whose())
	case !n.Known:
		return ok(check, "%s, %s; the model's size is not known", size(l.soft), n.whose())
	case l.soft < n.Tables+n.Region:
		command := "ulimit -l unlimited" // as root
		if l.hard >= n.Tables+n.Region {
			command = "ulimit -Sl hard"
		}
		finding := warn(check, fmt.Sprintf("%s, %s, want %s", size(l.soft), n.whose(), size(n.Tables+n.Region)),
			"raise it, so that tables and slabs are never swapped out; a service takes LimitMEMLOCK=infinity", command)
		if hugemem.Meminfo(m.Root)["SwapTotal"] == 0 { // nothing can be swapped out
			finding.State, finding.Change, finding.Commands = OK, "", nil
			finding.Found += "; swap is off, so nothing needs to be locked"
		}
		return finding
	}
	return ok(check, "%s, %s", size(l.soft), n.whose())
}

// openFiles looks at the hard limit: the Go runtime raises the soft one to it.
func (m *Machine) openFiles(n *Need) Finding {
	const check = "open files"
	l, err := m.limitOf(n.process(), "Max open files")
	switch {
	case err != nil:
		return unread(check, err)
	case l.hard < queueLength:
		return warn(check, fmt.Sprintf("at most %d in each process, %s: connections beyond are not accepted", l.hard, n.whose()),
			"raise the hard limit; a service takes LimitNOFILE=65536", "ulimit -Hn 65536")
	}
	return ok(check, "at most %d in each process, one a connection, %s", l.hard, n.whose())
}

func (m *Machine) acceptQueue() Finding {
	const check = "accept queue"
	limit, err := m.number("proc/sys/net/core/somaxconn")
	switch {
	case err != nil:
		return unread(check, err)
	case limit < queueLength:
		return warn(check, fmt.Sprintf("at most %d connections wait at a frontend, want %d", limit, queueLength),
			"raise it, so that a burst of connections is not refused", fmt.Sprintf("sysctl -w net.core.somaxconn=%d", queueLength))
	}
	return ok(check, "up to %d connections may wait at a frontend", min(limit, queueLength))
}

// sharedMemory is about the place of tables where nothing better is mounted. Whether they fit says the check of the tables.
func (m *Machine) sharedMemory(n *Need) Finding {
	const check, dir = "/dev/shm", hugemem.DefaultDir
	total, free, err := m.Space(dir)
	if err != nil {
		return warn(check, err.Error(), "mount it, or name another tmpfs with --shm-dir", "mount -t tmpfs -o mode=1777 tmpfs /dev/shm")
	}
	found := fmt.Sprintf("%s of %s free", size(free), size(total))
	if n.Known && n.TablesAt == "" && free < n.Tables {
		return warn(check, fmt.Sprintf("%s, want %s for the tables unless they lie elsewhere", found, size(n.Tables)),
			"make it larger (a container takes --shm-size), or mount another tmpfs", fmt.Sprintf("mount -o remount,size=%s /dev/shm", mebibytes(total-free+n.Tables+n.Tables/8)))
	}
	return ok(check, "%s", found)
}
