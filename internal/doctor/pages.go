package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"rankd/internal/cgroup"
	"rankd/internal/hugemem"
	"rankd/internal/mounts"
)

func (m *Machine) pages(n *Need) []Finding {
	merges := m.Merge()
	list := []Finding{}
	if n.Known {
		list = append(list, m.tablePages(n, merges), m.slabPages(n, merges))
	}
	return append(list, m.hugeMounts(), m.pool(n), m.transparent(merges), m.freeBlocks(n))
}

// mountCommands make a place where the tables get huge pages.
func mountCommands(n *Need) []string {
	room := n.pages() + n.pages()/8 // some to spare, for the next version of the model
	return []string{"mkdir -p /mnt/rankd", fmt.Sprintf("mount -t tmpfs -o huge=always,size=%s,mode=0700 rankd /mnt/rankd", mebibytes(room))}
}

func (m *Machine) tablePages(n *Need, merges error) Finding {
	const check = "tables"
	if n.TablesAt != "" {
		return ok(check, "in memory already: %s", n.TablesAt)
	}
	return m.place(check, n, hugemem.Options{Name: "rankd-doctor", Size: n.Tables, Named: true, Dir: n.ShmDir}, merges)
}

func (m *Machine) slabPages(n *Need, merges error) Finding {
	const check = "slabs"
	if n.ServerPID != 0 {
		return ok(check, "of the server that runs; rankd inspect memory shows them")
	}
	return m.place(check, n, hugemem.Options{Name: "rankd-doctor", Size: n.Region, Dir: n.ShmDir}, merges)
}

// place finds out where a start would put something, and on which pages.
func (m *Machine) place(check string, n *Need, o hugemem.Options, merges error) Finding {
	offers, err := m.Survey(o)
	if err != nil {
		return fail(check, err.Error(), "name a directory on a tmpfs or hugetlbfs with --shm-dir, or leave it out", mountCommands(n)...)
	}
	best := hugemem.Offer{Room: -1}
	for _, p := range offers {
		if p.Fits() && (p.Mode != hugemem.Collapse || merges == nil) {
			return fits(check, n, p, merges)
		}
		if p.Room > best.Room {
			best = p
		}
	}
	return m.noRoom(check, n, best)
}

func fits(check string, n *Need, p hugemem.Offer, merges error) Finding {
	where := fmt.Sprintf("%s fit into %s, where %s are free", size(p.Need), p.Place(), size(p.Room))
	if p.Limit == "none" {
		where = fmt.Sprintf("%s fit into %s", size(p.Need), p.Place())
	}
	switch p.Mode {
	case hugemem.HugeTmpfs:
		return ok(check, "%s, on huge pages (tmpfs with huge pages)", where)
	case hugemem.Hugetlb:
		return ok(check, "%s, on huge pages (of the hugetlb pool)", where)
	case hugemem.Collapse:
		return ok(check, "%s, on huge pages (merged by the kernel, as far as it finds free blocks)", where)
	}
	return warn(check, fmt.Sprintf("%s, on small pages: %v", where, merges), "give them huge pages: lookups read from all over the tables and are slower on small ones", mountCommands(n)...)
}

// noRoom is for what no place has room for; best is the place with the most.
func (m *Machine) noRoom(check string, n *Need, best hugemem.Offer) Finding {
	found := fmt.Sprintf("no place has room for %s: the most is %s in %s (%s)", size(best.Need), size(max(best.Room, 0)), best.Place(), best.Limit)
	switch best.Limit {
	case "filesystem":
		return fail(check, found, "make the filesystem larger, or mount another and name it with --shm-dir",
			fmt.Sprintf("mount -o remount,size=%s %s", mebibytes(n.pages()+n.pages()/8), best.Place()))
	case "cgroup":
		return fail(check, found, "raise the memory limit (a container takes --memory)", m.raiseMemory(n, best.Need-best.Room)...)
	case "hugetlb pool":
		return fail(check, found, "reserve more huge pages", reserve(n.pages()))
	}
	return fail(check, found, "free memory, or serve a smaller model")
}

// reserve is the command that makes the pool hold so many bytes in free pages beside those in use.
func reserve(bytes int64) string {
	return fmt.Sprintf("sysctl -w vm.nr_hugepages=%d", (bytes+hugemem.HugeSize-1)/hugemem.HugeSize+1)
}

func (m *Machine) hugeMounts() Finding {
	const check = "tmpfs with huge pages"
	list, err := mounts.Read(m.Root)
	if err != nil {
		return unread(check, err)
	}
	var found []string
	for _, mount := range list {
		option := hugemem.HugeOption(mount)
		if option == "" {
			continue
		}
		text := fmt.Sprintf("%s (%s", mount.Point, option)
		if total, free, err := m.Space(mount.Point); err == nil && total > 0 {
			text += fmt.Sprintf(", %s of %s free", size(free), size(total))
		}
		found = append(found, text+")")
	}
	if len(found) == 0 {
		return ok(check, "none is mounted; one outlives the server, so that a restart finds the tables")
	}
	return ok(check, "%s", strings.Join(found, ", "))
}

func (m *Machine) pool(n *Need) Finding {
	const check, dir = "hugetlb pool", "sys/kernel/mm/hugepages/hugepages-2048kB"
	all, err := m.number(dir, "nr_hugepages")
	if missing(err) {
		return ok(check, "this kernel has none; it is not needed")
	}
	if err != nil {
		return unread(check, err)
	}
	if all == 0 {
		return ok(check, "no pages are reserved; none are needed")
	}
	free, err := m.number(dir, "free_hugepages")
	if err != nil {
		return unread(check, err)
	}
	reserved, err := m.number(dir, "resv_hugepages")
	if err != nil {
		return unread(check, err)
	}
	usable := free - reserved
	found := fmt.Sprintf("%d of %d pages of 2 MiB are free", usable, all)
	if limit, limited := m.poolLimit(n); limited && limit>>21 < usable {
		usable = limit >> 21
		found += fmt.Sprintf(", but the control group %s may take %d", n.whose(), usable)
	}
	need := (n.pages() + hugemem.HugeSize - 1) / hugemem.HugeSize
	switch {
	case !n.Known, n.ServerPID != 0:
		return ok(check, "%s", found)
	case usable < need:
		return warn(check, fmt.Sprintf("%s, want %d for this model; what does not fit lies on other pages", found, need),
			"reserve more, or none if nothing else uses them", fmt.Sprintf("sysctl -w vm.nr_hugepages=%d", all+need-usable))
	}
	return ok(check, "%s, enough for this model", found)
}

// poolLimit is how many bytes of 2 MiB pages the control groups leave.
func (m *Machine) poolLimit(n *Need) (least int64, limited bool) {
	for _, l := range cgroup.Levels(m.Root, n.process(), "hugetlb") {
		limitFile, usageFile := "hugetlb.2MB.max", "hugetlb.2MB.current"
		if !l.V2 {
			limitFile, usageFile = "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.usage_in_bytes"
		}
		text, err := m.readBelow(l.Dir, limitFile)
		limit, noNumber := strconv.ParseInt(text, 10, 64)
		if err != nil || noNumber != nil || limit >= 1<<60 {
			continue
		}
		used := int64(0)
		if text, err := m.readBelow(l.Dir, usageFile); err == nil {
			used, _ = strconv.ParseInt(text, 10, 64)
		}
		if left := max(limit-used, 0); !limited || left < least {
			least, limited = left, true
		}
	}
	return least, limited
}

func (m *Machine) transparent(merges error) Finding {
	const check, dir = "transparent huge pages", "sys/kernel/mm/transparent_hugepage"
	said := func(name string) string {
		text, err := m.read(dir, name)
		if err != nil {
			return "unknown"
		}
		if _, rest, found := strings.Cut(text, "["); found {
			text, _, _ = strings.Cut(rest, "]")
		}
		return text
	}
	found := fmt.Sprintf("enabled %s, shmem_enabled %s", said("enabled"), said("shmem_enabled"))
	if merges == nil {
		return ok(check, "%s; the kernel merges pages when asked", found)
	}
	return warn(check, fmt.Sprintf("%s; the kernel did not merge a page: %v", found, merges),
		"allow it (it takes Linux 6.1), or mount a tmpfs with huge pages", "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled")
}

// freeBlocks counts the free memory that lies in blocks of 2 MiB, without which nothing can be merged at once.
func (m *Machine) freeBlocks(n *Need) Finding {
	const check, order = "free huge blocks", 9 // 4 KiB << 9
	text, err := m.read("proc", "buddyinfo")
	if err != nil {
		return unread(check, err)
	}
	var free int64
	for line := range strings.Lines(text) {
		_, counts, found := strings.Cut(line, " zone ")
		fields := strings.Fields(counts)
		if !found || len(fields) < 1+order {
			continue
		}
		for i, f := range fields[1:] { // the first is the zone's name
			blocks, err := strconv.ParseInt(f, 10, 64)
			if err == nil && i >= order {
				free += blocks << i << 12
			}
		}
	}
	if n.Known && n.ServerPID == 0 && free < n.pages() {
		return warn(check, fmt.Sprintf("%s in blocks of 2 MiB, want %s; the kernel may find more when it is asked, or not", size(free), size(n.pages())),
			"have the kernel put free memory together, before each start", "echo 1 > /proc/sys/vm/compact_memory")
	}
	return ok(check, "%s in blocks of 2 MiB", size(free))
}
