package monitor

import (
	"fmt"
	"strconv"

	"rankd/internal/procmem"
)

// Memory is what a tree has in memory, in bytes.
type Memory struct {
	At      string `json:"at"` // what was happening: "start", "peak", "end"
	PSS     int64  `json:"pss_bytes"`
	Hugetlb int64  `json:"hugetlb_bytes"` // each page once
}

// Bytes is all of it.
func (m Memory) Bytes() int64 { return m.PSS + m.Hugetlb }

// ReadMemory walks the mappings of a process and its descendants.
func ReadMemory(root int, at string) (Memory, error) {
	pids, err := descendants(root)
	if err != nil {
		return Memory{}, err
	}
	m := Memory{At: at}
	files := map[procmem.File]int64{} // hugetlb bytes: each mapping of the file shows all of its own pages
	found := false
	var last error
	for _, pid := range pids {
		list, err := procmem.Read(strconv.Itoa(pid))
		if err != nil {
			last = err // it has ended, or is not ours to look at
			continue
		}
		found = true
		own := map[procmem.File]int64{}
		for _, x := range list {
			m.PSS += x.PSS
			own[x.File] += x.Hugetlb
		}
		for file, n := range own {
			if file == (procmem.File{}) {
				m.Hugetlb += n
			} else {
				files[file] = max(files[file], n)
			}
		}
	}
	for _, n := range files {
		m.Hugetlb += n
	}
	if !found {
		return Memory{}, fmt.Errorf("read memory of process %d: %w", root, last)
	}
	return m, nil
}
