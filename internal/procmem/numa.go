package procmem

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// NUMAMapping is the nodes on which the pages of a mapping lie.
type NUMAMapping struct {
	Lo     uint64        // address; a mapping with several policies has a line for each
	Policy string        // as the kernel writes it: "default", "interleave:0-1", "prefer:1"
	Path   string        // as the kernel shows it; empty: anonymous
	Nodes  map[int]int64 // bytes mapped in this process, by node
}

// ErrNoNUMA says that this kernel does not tell of nodes.
var ErrNoNUMA = errors.New("this kernel has no NUMA")

// ReadNUMA returns the mappings of a process. pid may be "self". The error is ErrNoNUMA where the kernel has none.
func ReadNUMA(pid string) ([]NUMAMapping, error) {
	f, err := os.Open("/proc/" + pid + "/numa_maps")
	if errors.Is(err, os.ErrNotExist) {
		if _, own := os.Stat("/proc/self/numa_maps"); errors.Is(own, os.ErrNotExist) {
			err = ErrNoNUMA
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read nodes of process %s: %w", pid, err)
	}
	defer f.Close()
	list, err := ParseNUMA(f)
	if err != nil {
		return nil, fmt.Errorf("read nodes of process %s: %w", pid, err)
	}
	return list, nil
}

// ParseNUMA reads the text of numa_maps.
func ParseNUMA(r io.Reader) ([]NUMAMapping, error) {
	var list []NUMAMapping
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		m, err := parseNUMALine(sc.Text())
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, sc.Err()
}

// parseNUMALine reads "7f0012000000 interleave:0-1 file=/dev/shm/x mapped=512 N0=256 N1=256 kernelpagesize_kB=4".
func parseNUMALine(line string) (m NUMAMapping, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return m, fmt.Errorf("parse numa_maps line %q: want an address and a policy", line)
	}
	if m.Lo, err = strconv.ParseUint(fields[0], 16, 64); err != nil {
		return m, fmt.Errorf("parse numa_maps line %q: want an address first", line)
	}
	m.Policy = fields[1]
	pageKiB := int64(4)
	pages := map[int]int64{}
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		switch {
		case key == "file":
			m.Path = value
		case key == "kernelpagesize_kB":
			if pageKiB, err = parseCount(value, 1<<24); err != nil {
				return m, fmt.Errorf("parse numa_maps line %q: page size: %w", line, err)
			}
		case len(key) > 1 && key[0] == 'N' && key[1] >= '0' && key[1] <= '9':
			node, err := strconv.ParseUint(key[1:], 10, 16)
			count, err2 := parseCount(value, maxPages)
			if err != nil || err2 != nil || pages[int(node)] > maxPages {
				return m, fmt.Errorf("parse numa_maps line %q: got %q, want a node and its pages", line, f)
			}
			pages[int(node)] += count
		}
	}
	for node, count := range pages {
		if m.Nodes == nil {
			m.Nodes = map[int]int64{}
		}
		m.Nodes[node] = count * pageKiB << 10
	}
	return m, nil
}

// maxPages keeps sums of bytes within an int64, with pages of up to 16 GiB.
const maxPages = 1 << 28

// parseCount reads a number of at most limit.
func parseCount(text string, limit int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n < 0 || n > limit) {
		err = strconv.ErrRange
	}
	return n, err
}

// NodesOf sums up the nodes of all mappings of some files in a process.
func NodesOf(pid string, files ...File) (map[int]int64, error) {
	maps, err := Read(pid)
	if err != nil {
		return nil, err
	}
	nodes, err := ReadNUMA(pid)
	if err != nil {
		return nil, err
	}
	sum := map[int]int64{}
	for _, m := range maps {
		if m.File == (File{}) || !slices.Contains(files, m.File) {
			continue
		}
		for _, n := range nodes {
			if n.Lo >= m.Lo && n.Lo < m.Hi {
				addTo(sum, n.Nodes)
			}
		}
	}
	return sum, nil
}

// SumNUMA sums up the nodes of mappings that begin in [lo, hi).
func SumNUMA(list []NUMAMapping, lo, hi uint64) map[int]int64 {
	sum := map[int]int64{}
	for _, n := range list {
		if n.Lo >= lo && n.Lo < hi {
			addTo(sum, n.Nodes)
		}
	}
	return sum
}

func addTo(sum, more map[int]int64) {
	for node, bytes := range more {
		sum[node] += bytes
	}
}
