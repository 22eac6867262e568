package topologytest

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rankd/internal/topology"
)

//go:embed machines/*.txt
var machines embed.FS

// Names are the machines that there are.
func Names(t testing.TB) (names []string) {
	t.Helper()
	entries, err := machines.ReadDir("machines")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return names
}

// Lay writes the files of a machine and returns their root. Lines in more replace those of the machine that begin with the same word (I1).
func Lay(t testing.TB, name string, more ...string) (root string) {
	t.Helper()
	text, err := machines.ReadFile("machines/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	l := &layout{t: t, root: memory(t), made: map[string]bool{}}
	replaced := map[string]bool{}
	for _, line := range more {
		word, _, _ := strings.Cut(line, " ")
		replaced[word] = true
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(line, " "); !replaced[word] {
			lines = append(lines, line)
		}
	}
	for _, line := range slices.Concat(lines, more) {
		if line = strings.TrimRight(line, "\n "); line != "" && line[0] != '#' {
			l.read(line)
		}
	}
	l.write()
	return l.root
}

// memory makes a directory that is on no disk, since a large machine has thousands of files.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "topologytest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// layout is a machine while it is read.
type layout struct {
	t    testing.TB
	root string

	online, present topology.Set
	affinity, mems  topology.Set
	packages        map[int]topology.Set
	apart, adjacent int // of siblings
	nodes           []node
	uniform         bool // no NUMA in the kernel
	groups          []string
	made            map[string]bool // directories
}

type node struct {
	number       int
	cpus         topology.Set
	memory, free int64 // MiB
	distance     string
}

func (l *layout) read(line string) {
	l.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	f := strings.Fields(rest)
	switch {
	case word == "online":
		l.online = l.list(rest)
	case word == "present":
		l.present = l.list(rest)
	case word == "affinity":
		l.affinity = l.list(rest)
	case word == "mems":
		l.mems = l.list(rest)
	case word == "package" && len(f) == 2:
		if l.packages == nil {
			l.packages = map[int]topology.Set{}
		}
		l.packages[l.number(f[0])] = l.list(f[1])
	case word == "siblings" && len(f) == 1:
		l.apart = l.number(f[0])
	case word == "siblings" && len(f) == 2 && f[0] == "adjacent":
		l.adjacent = l.number(f[1])
	case word == "node":
		l.nodes = append(l.nodes, l.node(rest))
	case word == "device" && len(f) == 4:
		l.device(f[0], f[1], f[3])
	case word == "pool" && len(f) == 2:
		l.file(fmt.Sprintf("sys/devices/system/node/node%s/hugepages/hugepages-2048kB/free_hugepages", f[0]), strconv.Itoa(l.number(f[1])/2))
	case (word == "cpuset" || word == "quota") && len(f) == 2:
		l.groups = append(l.groups, line)
	case line == "kernel without NUMA":
		l.uniform = true
	default:
		l.t.Fatalf("lay out machine: got line %q", line)
	}
}

func (l *layout) node(text string) (n node) {
	l.t.Helper()
	head, cpus, ok := strings.Cut(text, " cpus ")
	cpus, memory, ok2 := strings.Cut(cpus, " memory ")
	memory, free, ok3 := strings.Cut(memory, " free ")
	free, distance, ok4 := strings.Cut(free, " distance ")
	if !ok || !ok2 || !ok3 || !ok4 {
		l.t.Fatalf("lay out machine: got node %q", text)
	}
	return node{l.number(head), l.list(cpus), int64(l.number(memory)), int64(l.number(free)), distance}
}

func (l *layout) list(text string) topology.Set {
	l.t.Helper()
	s, err := topology.ParseList(text)
	if err != nil {
		l.t.Fatalf("lay out machine: %v", err)
	}
	return s
}

func (l *layout) number(text string) int {
	l.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		l.t.Fatalf("lay out machine: %v", err)
	}
	return n
}

func (l *layout) file(path, text string) {
	l.t.Helper()
	path = filepath.Join(l.root, path)
	var err error
	if dir := filepath.Dir(path); !l.made[dir] {
		l.made[dir] = true
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(text+"\n"), 0o600)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *layout) write() {
	l.t.Helper()
	if l.present == nil {
		l.present = l.online
	}
	if l.affinity == nil {
		l.affinity = l.online
	}
	l.file("sys/devices/system/cpu/online", l.online.String())
	l.file("sys/devices/system/cpu/present", l.present.String())
	for number, cpus := range l.packages {
		for i, cpu := range cpus.And(l.online) { // the kernel has no topology of offline CPUs
			l.cpu(cpu, number, i)
		}
	}
	var all topology.Set
	var memory, free int64
	for _, n := range l.nodes {
		all = append(all, n.number)
		memory, free = memory+n.memory, free+n.free
		if !l.uniform {
			l.writeNode(n)
		}
	}
	if !l.uniform {
		l.file("sys/devices/system/node/online", all.String())
	}
	if l.mems == nil {
		l.mems = all
	}
	l.file("proc/meminfo", meminfo("", memory, free))
	status := "Name:\trankd\nCpus_allowed_list:\t" + l.affinity.String()
	if !l.uniform {
		status += "\nMems_allowed_list:\t" + l.mems.String()
	}
	l.file("proc/self/status", status)
	l.writeGroups()
}

func (l *layout) cpu(number, socket, index int) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", number)
	siblings, core := topology.SetOf(number), index
	switch {
	case l.adjacent > 0:
		core = index / l.adjacent
		siblings = nil
		for n := number - number%l.adjacent; n < number-number%l.adjacent+l.adjacent; n++ {
			siblings = append(siblings, n)
		}
	case l.apart > 0:
		core = number % l.apart
		siblings = topology.SetOf(core, core+l.apart)
	}
	l.file(dir+"physical_package_id", strconv.Itoa(socket))
	l.file(dir+"core_id", strconv.Itoa(core))
	l.file(dir+"thread_siblings_list", siblings.And(l.online).String())
}

func (l *layout) writeNode(n node) {
	dir := fmt.Sprintf("sys/devices/system/node/node%d/", n.number)
	l.file(dir+"cpulist", n.cpus.And(l.online).String())
	l.file(dir+"meminfo", meminfo(fmt.Sprintf("Node %d ", n.number), n.memory, n.free))
	l.file(dir+"distance", n.distance)
}

// meminfo has half of what is available in the page cache.
func meminfo(prefix string, memory, free int64) string {
	free <<= 10
	return fmt.Sprintf("%[1]sMemTotal:       %[2]d kB\n%[1]sMemFree:        %[3]d kB\n%[1]sActive(anon):   4096 kB\n%[1]sActive(file):   %[4]d kB\n%[1]sInactive(file): %[4]d kB",
		prefix, memory<<10, free-free/4*2, free/4)
}

func (l *layout) device(address, platform, node string) {
	l.t.Helper()
	ids := map[string][3]string{"cuda": {"0x10de", "0x030200", "0x20b0"}, "tpu": {"0x1ae0", "0x120000", "0x0063"}}
	id, known := ids[platform]
	if !known {
		l.t.Fatalf("lay out machine: got a device of platform %q", platform)
	}
	dir := "sys/bus/pci/devices/" + address + "/"
	l.file(dir+"vendor", id[0])
	l.file(dir+"class", id[1])
	l.file(dir+"device", id[2])
	l.file(dir+"numa_node", node)
}

// writeGroups puts the process into a control group where it has limits, with both versions mounted as on many machines.
func (l *layout) writeGroups() {
	if len(l.groups) == 0 {
		return
	}
	l.file("proc/self/cgroup", "5:cpuset:/rankd\n3:cpu,cpuacct:/rankd\n0::/rankd")
	l.file("proc/self/mountinfo", "33 32 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"+
		"34 32 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n35 32 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw")
	for _, line := range l.groups {
		f := strings.Fields(line)
		switch f[0] + " " + f[1] {
		case "cpuset v1":
			l.file("sys/fs/cgroup/cpuset/rankd/cpuset.cpus", f[2])
		case "cpuset v2":
			l.file("sys/fs/cgroup/unified/rankd/cpuset.cpus.effective", f[2])
		case "quota v1":
			l.file("sys/fs/cgroup/cpu/rankd/cpu.cfs_quota_us", l.quota(f[2]))
			l.file("sys/fs/cgroup/cpu/rankd/cpu.cfs_period_us", "100000")
		case "quota v2":
			l.file("sys/fs/cgroup/unified/rankd/cpu.max", l.quota(f[2])+" 100000")
		default:
			l.t.Fatalf("lay out machine: got line %q", line)
		}
	}
}

func (l *layout) quota(cpus string) string {
	q, err := strconv.ParseFloat(cpus, 64)
	if err != nil {
		l.t.Fatalf("lay out machine: %v", err)
	}
	return strconv.FormatInt(int64(q*100000), 10)
}
