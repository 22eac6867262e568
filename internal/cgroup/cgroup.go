package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rankd/internal/mounts"
)

// Level is one cgroup.
type Level struct {
	Dir string // of its files
	V2  bool   // its files are those of version 2
}

// Levels lists the cgroups of a process ("self" or its number) for a controller, such as "memory", from its own up to the
// mount. root stands before every path; it is empty but for tests.
func Levels(root, process, controller string) []Level {
	paths, err := os.ReadFile(filepath.Join(root, "/proc", process, "cgroup"))
	if err != nil {
		return nil
	}
	list, err := mounts.Read(root)
	if err != nil {
		return nil
	}
	var levels []Level
	for line := range strings.Lines(string(paths)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, m := range list {
			v2 := f[1] == "" && m.Type == "cgroup2"
			v1 := m.Type == "cgroup" && slices.Contains(strings.Split(f[1], ","), controller) && slices.Contains(m.Options, controller)
			if v1 || v2 {
				levels = append(levels, climb(root, m, f[2], v2)...)
			}
		}
	}
	return levels
}

// climb lists the levels from path up to the mount.
func climb(root string, m mounts.Mount, path string, v2 bool) (levels []Level) {
	if m.Root != "/" {
		path = strings.TrimPrefix(path, m.Root)
	}
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		levels = append(levels, Level{filepath.Join(root, m.Point, path), v2})
		if path == "/" {
			return levels
		}
	}
}
