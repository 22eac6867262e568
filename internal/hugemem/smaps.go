package hugemem

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// pages is the sum of the smaps entries inside an address range, in bytes.
type pages struct {
	size, rss, thp, hugetlb int64
}

// readSmaps sums the entries of smaps text that lie inside [lo, hi).
func readSmaps(r io.Reader, lo, hi uint64) (pages, error) {
	var p pages
	inside := false
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		key, rest, ok := strings.Cut(line, ":")
		if !ok || strings.Contains(key, " ") { // a header: "7f00-7f01 r--s 00000000 00:01 1 /path"
			key = ""
		}
		if key == "" {
			var a, b uint64
			if n, _ := fmt.Sscanf(line, "%x-%x ", &a, &b); n == 2 {
				inside = a >= lo && b <= hi
			}
			continue
		}
		if !inside {
			continue
		}
		var into *int64
		switch key {
		case "Size":
			into = &p.size
		case "Rss":
			into = &p.rss
		case "ShmemPmdMapped", "FilePmdMapped", "AnonHugePages":
			into = &p.thp
		case "Shared_Hugetlb", "Private_Hugetlb":
			into = &p.hugetlb
		default:
			continue
		}
		if f := strings.Fields(rest); len(f) > 0 {
			n, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				return pages{}, fmt.Errorf("parse smaps line %q: %w", line, err)
			}
			*into += n << 10
		}
	}
	return p, sc.Err()
}

// coverage reads the state of [lo, lo+n) in this process. huge says that its tmpfs gives huge pages unasked.
func coverage(lo uint64, n int64, huge bool) (Coverage, error) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return Coverage{}, fmt.Errorf("read pages of mapping: %w", err)
	}
	defer f.Close()
	p, err := readSmaps(f, lo, lo+uint64(n))
	if err != nil {
		return Coverage{}, fmt.Errorf("read pages of mapping: %w", err)
	}
	c := Coverage{
		Mode: Small, HugeBytes: p.thp + p.hugetlb, HugetlbBytes: p.hugetlb,
		ResidentBytes: p.rss + p.hugetlb, TotalBytes: n,
	}
	switch {
	case p.hugetlb > 0:
		c.Mode = Hugetlb
	case p.thp > 0 && huge:
		c.Mode = HugeTmpfs
	case p.thp > 0:
		c.Mode = Collapse
	}
	return c, nil
}
