package hugemem

import (
	"fmt"

	"rankd/internal/procmem"
)

// pages is the sum of the mappings inside an address range, in bytes.
type pages struct {
	rss, thp, hugetlb int64
}

// sumOf adds up the mappings that lie inside [lo, hi).
func sumOf(list []procmem.Mapping, lo, hi uint64) pages {
	var p pages
	for _, m := range list {
		if m.Lo >= lo && m.Hi <= hi {
			p.rss += m.RSS
			p.thp += m.Huge
			p.hugetlb += m.Hugetlb
		}
	}
	return p
}

// coverage reads the state of [lo, lo+n) in this process. huge says that its tmpfs gives huge pages unasked.
func coverage(lo uint64, n int64, huge bool) (Coverage, error) {
	list, err := procmem.Read("self")
	if err != nil {
		return Coverage{}, fmt.Errorf("read pages of mapping: %w", err)
	}
	p := sumOf(list, lo, lo+uint64(n))
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
