package doctor

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (m *Machine) ports(n *Need) []Finding {
	list := []Finding{m.port("listen", n.Listen, n)}
	if n.HTTP == "" {
		return append(list, ok("http", "none: neither metrics nor a status page"))
	}
	return append(list, m.port("http", n.HTTP, n))
}

// port finds out whether an address can be served.
func (m *Machine) port(flag, address string, n *Need) Finding {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return fail(flag, fmt.Sprintf("got %q: %v", address, err), fmt.Sprintf("set --%s to host:port", flag))
	}
	if text == "0" {
		return ok(flag, "%s: any free port", address)
	}
	err = m.Bind(address)
	switch {
	case err == nil:
		return ok(flag, "%s is free", address)
	case errors.Is(err, unix.EACCES):
		return fail(flag, fmt.Sprintf("%s: ports below 1024 are for root", address), fmt.Sprintf("set --%s to another port, or permit this one", flag),
			"sysctl -w net.ipv4.ip_unprivileged_port_start="+text)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fail(flag, fmt.Sprintf("%s is no address of this machine", address), fmt.Sprintf("set --%s to one of them, or leave the host empty for all", flag), "ip -brief address")
	case !errors.Is(err, unix.EADDRINUSE):
		return fail(flag, fmt.Sprintf("%s: %v", address, err), fmt.Sprintf("set --%s to another address", flag))
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil { // a name of a service
		return fail(flag, fmt.Sprintf("%s is taken", address), fmt.Sprintf("set --%s to another port", flag))
	}
	holders := m.holders(uint16(port))
	if slices.ContainsFunc(holders, func(h holder) bool { return h.pid == n.ServerPID }) {
		return ok(flag, "%s is held by the server that runs, process %d", address, n.ServerPID)
	}
	return taken(flag, address, uint16(port), holders)
}

func taken(flag, address string, port uint16, holders []holder) Finding {
	change := fmt.Sprintf("stop what holds it, or set --%s to another port", flag)
	if len(holders) == 0 {
		return fail(flag, fmt.Sprintf("%s is held by a process of another user or container", address), change, fmt.Sprintf("ss -ltnp 'sport = :%d'", port))
	}
	names, pids := namesOf(holders)
	return fail(flag, fmt.Sprintf("%s is held by process %s", address, strings.Join(names, ", ")), change, "kill "+strings.Join(pids, " "))
}

// holder is a process that listens at a port.
type holder struct {
	pid  int
	name string
}

// holders finds the processes that listen at a port, as far as this user may see them.
func (m *Machine) holders(port uint16) (found []holder) {
	sockets := map[string]bool{}
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := m.read("proc/net", file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if inode, at := listening(line); inode != "" && at == port {
				sockets["socket:["+inode+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	dirs, _ := filepath.Glob(m.path("proc", "[0-9]*", "fd"))
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // empty where it is not permitted
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			if err != nil || !sockets[target] {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
			name, _ := m.read("proc", strconv.Itoa(pid), "comm")
			found = append(found, holder{pid, name})
			break
		}
	}
	slices.SortFunc(found, func(a, b holder) int { return a.pid - b.pid })
	return found
}

// Holding names the processes that listen at an address, such as "4711 (nginx)"; "" if there is none or it can't be seen.
func (m *Machine) Holding(address string) string {
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return ""
	}
	names, _ := namesOf(m.holders(uint16(port)))
	return strings.Join(names, ", ")
}

// namesOf gives processes with and without their names.
func namesOf(holders []holder) (names, pids []string) {
	for _, h := range holders {
		names = append(names, fmt.Sprintf("%d (%s)", h.pid, h.name))
		pids = append(pids, strconv.Itoa(h.pid))
	}
	return names, pids
}

// listening reads a line of /proc/net/tcp: the socket's inode and port if it listens, else "".
func listening(line string) (inode string, port uint16) {
	const listen = "0A"
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != listen {
		return "", 0
	}
	_, text, _ := strings.Cut(f[1], ":")
	number, err := hex.DecodeString(text)
	if err != nil || len(number) != 2 {
		return "", 0
	}
	return f[9], binary.BigEndian.Uint16(number)
}
