package hugemem

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/internal/cgroup"
)

// room is how many bytes a place can give and what sets that figure.
type room struct {
	bytes int64
	limit string
}

func (r room) min(bytes int64, limit string) room {
	if bytes < r.bytes {
		return room{max(bytes, 0), limit}
	}
	return r
}

var noLimit = room{bytes: math.MaxInt64, limit: "none"}

// shmemRoom is the room for tmpfs pages in dir, or for a memfd if dir is empty. Beyond the filesystem's size it counts
// the cgroups' limits and the machine's memory: allocating past those does not fail, it wakes the OOM killer.
func shmemRoom(dir string) (room, error) {
	r := noLimit
	if dir != "" {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return room{}, fmt.Errorf("stat filesystem %q: %w", dir, err)
		}
		if fs.Blocks != 0 { // zero: mounted without a limit
			r = r.min(int64(fs.Bavail)*fs.Bsize, "filesystem")
		}
	}
	if b, ok := cgroupRoom(""); ok {
		r = r.min(b, "cgroup")
	}
	if b, ok := meminfo("")["MemAvailable"]; ok {
		r = r.min(b, "machine memory")
	}
	return r, nil
}

// hugetlbRoom is the room in the pool of pages of pageSize bytes, within the limit of the mount at dir if one is set.
// Limits of the hugetlb cgroup show when the pages are allocated: that fails cleanly.
func hugetlbRoom(dir string, pageSize int64) room {
	pool := fmt.Sprintf("/sys/kernel/mm/hugepages/hugepages-%dkB/", pageSize>>10)
	free, _ := readNumber(pool + "free_hugepages")
	reserved, _ := readNumber(pool + "resv_hugepages")
	r := noLimit.min((free-reserved)*pageSize, "hugetlb pool")
	if dir == "" {
		return r
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil && fs.Blocks != 0 && fs.Bavail < math.MaxInt64/uint64(fs.Bsize) {
		r = r.min(int64(fs.Bavail)*fs.Bsize, "filesystem")
	}
	return r
}

// defaultHugetlbSize is the size of the pages that a memfd gets from the pool, 0 if there is no pool.
func defaultHugetlbSize() int64 { return meminfo("")["Hugepagesize"] }

// swapOn reports whether any swap device is active.
func swapOn() bool { return meminfo("")["SwapTotal"] > 0 }

// meminfo reads root/proc/meminfo; sizes are bytes.
func meminfo(root string) map[string]int64 {
	b, err := os.ReadFile(filepath.Join(root, "/proc/meminfo"))
	if err != nil {
		return nil
	}
	out := map[string]int64{}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		key, rest, ok := strings.Cut(sc.Text(), ":")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			continue
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			continue
		}
		if len(f) == 2 && f[1] == "kB" {
			n <<= 10
		}
		out[key] = n
	}
	return out
}

// cgroupRoom is what the memory limits above this process leave, page cache counted as free because it is given back.
// ok is false where no limit is set or none can be read. root stands before every path.
func cgroupRoom(root string) (int64, bool) {
	least, found := int64(math.MaxInt64), false
	for _, l := range cgroup.Levels(root, "self", "memory") {
		if b, ok := GroupRoom(l); ok {
			least, found = min(least, b), true
		}
	}
	return least, found
}

// GroupRoom is what the memory limit of one cgroup leaves, page cache counted as free; limited is false where it has none.
func GroupRoom(l cgroup.Level) (bytes int64, limited bool) {
	limitFile, usageFile, prefix := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	if l.V2 {
		limitFile, usageFile, prefix = "memory.max", "memory.current", ""
	}
	dir := l.Dir
	limit, ok := readNumber(filepath.Join(dir, limitFile))
	if !ok || limit >= 1<<60 { // v1 writes "no limit" as a huge number, v2 as the word max
		return 0, false
	}
	usage, ok := readNumber(filepath.Join(dir, usageFile))
	if !ok {
		return 0, false
	}
	b, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == prefix+"inactive_file" || f[0] == prefix+"active_file") {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			usage -= n
		}
	}
	return max(limit-max(usage, 0), 0), true
}

func readNumber(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}
