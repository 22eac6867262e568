package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPU is one online CPU.
type CPU struct {
	Number   int
	Package  int // -1: not told
	Core     int // unique within the package; -1: not told
	Siblings Set // the online CPUs of the same core, itself included
	Node     int
}

// Node is one NUMA node.
type Node struct {
	Number    int
	CPUs      Set         // online ones
	Memory    int64       // bytes in all
	Available int64       // bytes free, page cache of files counted as free because it is given back
	Pool      int64       // bytes free in its pools of reserved huge pages; not in Available
	Distance  map[int]int // by node; 10 is its own memory
}

// Machine is the processors and nodes of a machine.
type Machine struct {
	Online  Set // CPUs
	Present Set // CPUs, the offline ones included
	CPUs    []CPU
	Nodes   []Node // ascending
}

// Read reads the topology below root, which is empty but for tests.
func Read(root string) (*Machine, error) {
	r := reader{root}
	m := &Machine{}
	var err error
	if m.Online, err = r.list("sys/devices/system/cpu/online"); err != nil {
		return nil, fmt.Errorf("read processors: %w", err)
	}
	if len(m.Online) == 0 {
		return nil, errors.New("read processors: /sys/devices/system/cpu/online is empty")
	}
	if m.Present, err = r.list("sys/devices/system/cpu/present"); err != nil {
		m.Present = m.Online
	}
	if m.Nodes, err = r.nodes(m.Online); err != nil {
		return nil, fmt.Errorf("read NUMA nodes: %w", err)
	}
	for _, number := range m.Online {
		m.CPUs = append(m.CPUs, r.cpu(number, m))
	}
	return m, nil
}

// NodeOf is the node of an online CPU; -1 if it is none.
func (m *Machine) NodeOf(cpu int) int {
	for i := range m.Nodes {
		if m.Nodes[i].CPUs.Has(cpu) {
			return m.Nodes[i].Number
		}
	}
	return -1
}

// Node finds a node by its number; nil if there is none.
func (m *Machine) Node(number int) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].Number == number {
			return &m.Nodes[i]
		}
	}
	return nil
}

// NodeNumbers are all nodes, those without memory or CPUs included.
func (m *Machine) NodeNumbers() (s Set) {
	for i := range m.Nodes {
		s = append(s, m.Nodes[i].Number)
	}
	return s
}

// NodesOf are the nodes of some CPUs.
func (m *Machine) NodesOf(cpus Set) (s Set) {
	for i := range m.Nodes {
		if len(m.Nodes[i].CPUs.And(cpus)) > 0 {
			s = append(s, m.Nodes[i].Number)
		}
	}
	return s
}

// MemoryNear is the node with memory that is nearest to a node: itself, if it has any. Only nodes in among count. -1: none has memory.
func (m *Machine) MemoryNear(node int, among Set) int {
	from, best, least := m.Node(node), -1, 0
	if from == nil {
		return -1
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n.Memory == 0 || !among.Has(n.Number) {
			continue
		}
		distance, told := from.Distance[n.Number]
		switch {
		case n.Number == node:
			distance = 0
		case !told:
			distance = 255
		}
		if best < 0 || distance < least {
			best, least = n.Number, distance
		}
	}
	return best
}

// Cores is the number of cores that some CPUs belong to.
func (m *Machine) Cores(cpus Set) int {
	seen := Set{}
	for _, c := range m.CPUs {
		if cpus.Has(c.Number) && len(c.Siblings) > 0 {
			seen = append(seen, c.Siblings[0])
		}
	}
	return len(SetOf(seen...))
}

// Packages is the number of packages, which are sockets.
func (m *Machine) Packages() int {
	seen := []int{}
	for _, c := range m.CPUs {
		seen = append(seen, c.Package)
	}
	return len(SetOf(seen...))
}

// reader reads small files below a root.
type reader struct{ root string }

func (r reader) text(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "/", path))
	return strings.TrimSpace(string(text)), err
}

func (r reader) list(path string) (Set, error) {
	text, err := r.text(path)
	if err != nil {
		return nil, err
	}
	s, err := ParseList(text)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", path, err)
	}
	return s, nil
}

// number is -1 where there is none.
func (r reader) number(path string) int {
	text, err := r.text(path)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (r reader) cpu(number int, m *Machine) CPU {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", number)
	c := CPU{Number: number, Package: r.number(dir + "physical_package_id"), Core: r.number(dir + "core_id"), Node: m.NodeOf(number)}
	siblings, err := r.list(dir + "thread_siblings_list")
	if c.Siblings = siblings.And(m.Online); err != nil || !c.Siblings.Has(number) {
		c.Siblings = Set{number}
	}
	return c
}

// nodes reads the nodes. CPUs that are in none, which a kernel without NUMA has, are in the first (I3).
func (r reader) nodes(online Set) ([]Node, error) {
	numbers, err := r.list("sys/devices/system/node/online")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	var list []Node
	homeless := online
	for _, number := range numbers {
		n, err := r.node(number, numbers, homeless)
		if err != nil {
			return nil, err
		}
		homeless = homeless.Without(n.CPUs)
		list = append(list, n)
	}
	if len(list) == 0 {
		memory, available, err := r.memory("proc/meminfo", "")
		if err != nil {
			return nil, err
		}
		list = append(list, Node{Memory: memory, Available: available, Pool: r.pools("sys/kernel/mm/hugepages"), Distance: map[int]int{0: 10}})
	}
	list[0].CPUs = list[0].CPUs.Or(homeless)
	return list, nil
}

func (r reader) node(number int, all, online Set) (n Node, err error) {
	dir := fmt.Sprintf("sys/devices/system/node/node%d/", number)
	n = Node{Number: number, Distance: map[int]int{}}
	cpus, err := r.list(dir + "cpulist")
	if err != nil {
		return n, err
	}
	n.CPUs = cpus.And(online)
	if n.Memory, n.Available, err = r.memory(dir+"meminfo", fmt.Sprintf("Node %d ", number)); err != nil {
		return n, err
	}
	n.Pool = r.pools(dir + "hugepages")
	// One figure for each node that is online, in their order.
	text, _ := r.text(dir + "distance")
	for i, field := range strings.Fields(text) {
		if d, err := strconv.Atoi(field); err == nil && i < len(all) {
			n.Distance[all[i]] = d
		}
	}
	return n, nil
}

// pools sums up what is free in the pools of all sizes of huge pages, which have a directory each, such as hugepages-2048kB.
func (r reader) pools(dir string) (bytes int64) {
	pools, _ := filepath.Glob(filepath.Join(r.root, "/", dir, "hugepages-*kB"))
	for _, pool := range pools {
		name := filepath.Base(pool)
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB"), 10, 64)
		if free := r.number(filepath.Join(dir, name, "free_hugepages")); err == nil && free > 0 {
			bytes += int64(free) * kib << 10
		}
	}
	return bytes
}

// memory reads lines such as "Node 0 MemTotal:  100 kB".
func (r reader) memory(path, prefix string) (total, available int64, err error) {
	text, err := r.text(path)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		key, figure, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), prefix), ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(figure), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "MemTotal":
			total = kib << 10
		case "MemFree", "Active(file)", "Inactive(file)":
			available += kib << 10
		}
	}
	return total, available, nil
}
