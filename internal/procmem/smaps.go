package procmem

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mapping is one mapping of a process. All sizes are bytes.
type Mapping struct {
	Lo, Hi  uint64 // addresses
	File    File   // zero: not a file
	Path    string // as the kernel shows it; empty: anonymous
	Size    int64
	RSS     int64 // without hugetlb pages
	PSS     int64 // without hugetlb pages
	Huge    int64 // the part of RSS that huge pages map
	Hugetlb int64
}

// File names a file on this machine: inode numbers of different filesystems may be equal.
type File struct {
	Device string // as the kernel writes it, such as "00:19"
	Inode  uint64
}

// FileOf names the file behind an open descriptor or path, from what stat says.
func FileOf(info os.FileInfo) File {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{}
	}
	return File{fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev)), st.Ino}
}

// Read returns the mappings of a process. pid may be "self".
func Read(pid string) ([]Mapping, error) {
	f, err := os.Open("/proc/" + pid + "/smaps")
	if err != nil {
		return nil, fmt.Errorf("read mappings of process %s: %w", pid, err)
	}
	defer f.Close()
	list, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("read mappings of process %s: %w", pid, err)
	}
	return list, nil
}

// Parse reads the text of smaps.
func Parse(r io.Reader) ([]Mapping, error) {
	var list []Mapping
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if m, ok := parseHeader(line); ok {
			list = append(list, m)
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("parse smaps line %q: want a mapping first", line)
		}
		if err := list[len(list)-1].addFigure(line); err != nil {
			return nil, err
		}
	}
	return list, sc.Err()
}

// parseHeader reads "7f00-7f01 r--s 00000000 00:01 1 /path"; other lines are "Key: figure".
func parseHeader(line string) (Mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 || strings.HasSuffix(fields[0], ":") {
		return Mapping{}, false
	}
	lo, hi, ok := strings.Cut(fields[0], "-")
	if !ok {
		return Mapping{}, false
	}
	var m Mapping
	var errs [3]error
	m.Lo, errs[0] = strconv.ParseUint(lo, 16, 64)
	m.Hi, errs[1] = strconv.ParseUint(hi, 16, 64)
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	if errs[2] = err; errs != [3]error{} {
		return Mapping{}, false
	}
	if inode != 0 {
		m.File = File{fields[3], inode}
	}
	if len(fields) > 5 {
		m.Path = strings.Join(fields[5:], " ")
	}
	return m, true
}

func (m *Mapping) addFigure(line string) error {
	key, rest, _ := strings.Cut(line, ":")
	var into *int64
	switch key {
	case "Size":
		into = &m.Size
	case "Rss":
		into = &m.RSS
	case "Pss":
		into = &m.PSS
	case "ShmemPmdMapped", "FilePmdMapped", "AnonHugePages":
		into = &m.Huge
	case "Shared_Hugetlb", "Private_Hugetlb":
		into = &m.Hugetlb
	default:
		return nil
	}
	f := strings.Fields(rest)
	if len(f) == 0 {
		return fmt.Errorf("parse smaps line %q: want a figure", line)
	}
	kib, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return fmt.Errorf("parse smaps line %q: %w", line, err)
	}
	*into += kib << 10
	return nil
}
