package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/internal/config"
	"rankd/internal/hugemem"
	"rankd/internal/steer"
)

// Need is what a server asks of the machine.
type Need struct {
	Known          bool   // the model could be read, so that the next three are known
	Tables, Region int64  // bytes of the tables and of the slabs
	TablesAt       string // where these very tables lie already; empty: nowhere

	Frontends int
	OwnerCPUs []int // empty: all
	Steering  steer.Policy
	ShmDir    string // empty: the best that is mounted
	Listen    string // host:port
	HTTP      string // host:port; empty: none
	ServerPID int    // of a server that runs with this configuration; 0: none
}

// pages is what the server takes from the machine in shared pages that are not there yet.
func (n *Need) pages() int64 {
	if n.TablesAt != "" {
		return n.Region
	}
	return n.Tables + n.Region
}

// process is the one whose limits count (I5).
func (n *Need) process() string {
	if n.ServerPID != 0 {
		return strconv.Itoa(n.ServerPID)
	}
	return "self"
}

// whose says whose limits they are.
func (n *Need) whose() string {
	if n.ServerPID != 0 {
		return fmt.Sprintf("of the server, process %d", n.ServerPID)
	}
	return "of this process"
}

// Machine answers what the checks ask.
type Machine struct {
	Root   string // stands before every path of /proc and /sys
	Space  func(dir string) (total, free int64, err error)
	Survey func(hugemem.Options) ([]hugemem.Offer, error)
	Merge  func() error // whether the kernel merges small pages into huge ones
	Pool   func() error // whether nameless memory from the hugetlb pool can be had at all
	Steer  func(steer.Policy, int) (steer.State, error)
	Bind   func(address string) error
}

// This is the machine that the process runs on.
func This() *Machine {
	return &Machine{
		Space: space, Survey: hugemem.Survey, Merge: merge, Pool: poolMemfd, Steer: steer.Try, Bind: bindOnce,
	}
}

func space(dir string) (total, free int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("stat filesystem %q: %w", dir, err)
	}
	return int64(fs.Blocks) * fs.Bsize, int64(fs.Bavail) * fs.Bsize, nil
}

// merge tries it on one huge page of nameless memory.
func merge() error {
	f, err := hugemem.Create(context.Background(), hugemem.Options{Name: "rankd-doctor", Size: hugemem.HugeSize, Want: hugemem.Collapse})
	if err != nil {
		return err
	}
	return f.Close()
}

// poolMemfd allocates nothing: pages are taken from the pool when the file gets a size.
func poolMemfd() error {
	fd, err := unix.MemfdCreate("rankd-doctor", unix.MFD_CLOEXEC|unix.MFD_HUGETLB)
	if err != nil {
		return fmt.Errorf("make memfd on huge pages: %w", err)
	}
	return unix.Close(fd)
}

// bindOnce finds out whether nobody listens at an address. A host name gives its first address.
func bindOnce(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

func (m *Machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.Root, "/"}, parts...)...)
}

// read gives a small file's text without the last line break.
func (m *Machine) read(parts ...string) (string, error) {
	text, err := os.ReadFile(m.path(parts...))
	return strings.TrimRight(string(text), "\n"), err
}

// readBelow reads a file of a directory whose path has the root in it already.
func (m *Machine) readBelow(dir, file string) (string, error) {
	return m.read(strings.TrimPrefix(dir, m.Root), file)
}

// number reads a file that holds one number.
func (m *Machine) number(parts ...string) (int64, error) {
	text, err := m.read(parts...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

// status reads a field of /proc/PROCESS/status.
func (m *Machine) status(process, field string) (string, error) {
	text, err := m.read("proc", process, "status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("find %s in /proc/%s/status: %w", field, process, os.ErrNotExist)
}

// The numbers of capabilities in linux/capability.h.
const capIPCLock = 14

// capable reports whether a process has a capability.
func (m *Machine) capable(process string, capability int) bool {
	text, err := m.status(process, "CapEff")
	if err != nil {
		return false
	}
	set, err := strconv.ParseUint(text, 16, 64)
	return err == nil && set&(1<<capability) != 0
}

// unread is the finding for what can't be read (I3).
func unread(check string, err error) Finding {
	return warn(check, err.Error(), "nothing is known about it: run as the user of the server, where /proc and /sys are mounted")
}

// size writes bytes for people.
func size(n int64) string { return config.Bytes(n).Human() }

// mebibytes writes bytes as mount and sysctl take them, rounded up.
func mebibytes(n int64) string { return strconv.FormatInt((n+1<<20-1)>>20, 10) + "m" }

// missing reports whether a file is not there, which on older kernels and in containers is ordinary.
func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }

// Look runs every check of this package.
func Look(m *Machine, n *Need) *Report {
	r := &Report{}
	r.Add("memory", m.memory(n)...)
	r.Add("pages", m.pages(n)...)
	r.Add("limits", m.limits(n)...)
	r.Add("processors", m.processors(n)...)
	r.Add("kernel", m.kernel(n)...)
	r.Add("ports", m.ports(n)...)
	return r
}
