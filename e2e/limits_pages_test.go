package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
	"rankd/model"
	"rankd/supervisor"
)

const hugePage = 2 << 20

// pool reserves so many huge pages for the length of a test.
func pool(t testing.TB, pages int) {
	t.Helper()
	const file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("needs a pool of huge pages of 2 MiB: %v", err)
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(pages)), 0); err != nil {
		t.Skipf("sets the pool of huge pages, which is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Errorf("put the pool of huge pages back: %v", err)
		}
	})
	if got, _ := os.ReadFile(file); strings.TrimSpace(string(got)) != strconv.Itoa(pages) {
		t.Skipf("needs %d huge pages: the machine gives %s", pages, strings.TrimSpace(string(got)))
	}
}

// wantPoolFree waits until nobody has a page of the pool.
func wantPoolFree(t testing.TB, pages int) {
	t.Helper()
	testutil.Eventually(t, limit, fmt.Sprintf("all %d pages of the pool to be free", pages), func() bool {
		text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
		return err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(pages)
	})
}

// pagesOf asks the kernel about a process's mapping of the file behind a descriptor of the supervisor. Bytes.
func (s *server) pagesOf(st *supervisor.State, pid, fd int) (total, hugetlb, merged int64) {
	s.t.Helper()
	info, err := os.Stat(st.FDPath(fd))
	if err != nil {
		s.t.Fatal(err)
	}
	inode := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	ours := false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.Contains(f[0], "-") && !strings.HasSuffix(f[0], ":") {
			ours = len(f) > 4 && f[4] == inode
			continue
		}
		if !ours || len(f) < 3 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch n <<= 10; f[0] {
		case "Size:":
			total += n
		case "Shared_Hugetlb:", "Private_Hugetlb:":
			hugetlb += n
		case "ShmemPmdMapped:", "FilePmdMapped:":
			merged += n
		}
	}
	return total, hugetlb, merged
}

// wantPages compares what the server says of its tables' and its region's pages with what the kernel says, and returns how
// much of the tables is on pages of the pool.
func (s *server) wantPages() (tablesInPool, regionInPool int64) {
	s.t.Helper()
	st, said := s.state(), s.status()
	if st == nil || said == nil {
		s.t.Fatal("look at the pages: no state or status")
	}
	check := func(what, text string, fd int) int64 {
		total, inPool, merged := s.pagesOf(st, st.PID, fd)
		mode := "4k"
		switch {
		case inPool > 0:
			mode = "hugetlb"
		case merged > 0:
			mode = "collapse"
		}
		want := fmt.Sprintf("%s, %d of %d MiB", mode, (inPool+merged)>>20, total>>20)
		if !strings.HasPrefix(text, want) && !strings.HasPrefix(text, strings.Replace(want, "collapse", "huge-tmpfs", 1)) {
			s.t.Errorf("got pages of %s %q, want %q as the kernel says", what, text, want)
		}
		if inPool != 0 && inPool != total {
			s.t.Errorf("got %d of %d bytes of %s from the pool, want all or none", inPool, total, what)
		}
		return inPool
	}
	tablesInPool = check("the tables", said.Tables.Pages, st.TablesFD)
	regionInPool = check("the region", said.Region.Pages, st.RegionFD)
	for _, c := range st.Children {
		if c.Role != "frontend" {
			continue
		}
		if total, inPool, _ := s.pagesOf(st, c.PID, st.TablesFD); total == 0 || inPool != tablesInPool {
			s.t.Errorf("got %d bytes of tables mapped in frontend %d, %d of them from the pool, want as many as in the supervisor, %d", total, c.Index, inPool, tablesInPool)
		}
	}
	return tablesInPool, regionInPool
}

// fellBack reports whether the log tells that a place was passed over, and which.
func (s *server) fellBack(place string) bool {
	for line := range strings.Lines(s.logSinceStart()) {
		if strings.Contains(line, "shared pages not available in this place") && strings.Contains(line, place) {
			return true
		}
	}
	return false
}

// huge is what the tests of huge pages share: a small model whose tables and region need some pages each.
type huge struct {
	b              *model.Bundle
	exam           *exam
	seed           uint64
	flags          []string
	tables, region int // pages
}

func newHuge(t *testing.T) *huge {
	t.Helper()
	seed, b := seedOf(t), smallDemo(t)
	return &huge{
		b: b, exam: newExam(t, b, seed, 512, simulated(t, b.Manifest)), seed: seed,
		flags:  []string{"--executor=sim", "--sim-verify=full", "--buckets=1,8,32", "--frontends=2"},
		tables: int(bytesOf(b)/hugePage) + 1, region: 4,
	}
}

// mounted is a script that mounts a hugetlbfs and hides the better places of the machine.
func mounted(dir string) string {
	return fmt.Sprintf(`awk '$3 == "hugetlbfs" || $3 == "tmpfs" && /huge=/ {print $2}' /proc/mounts | while read -r point; do umount "$point"; done
		mount -t hugetlbfs -o pagesize=2M rankd-e2e %s`, dir)
}

func TestHugePagesThatAreNotThereAreVisiblyReplacedOrRefused(t *testing.T) {
	h := newHuge(t)
	dir := t.TempDir()
	start := func(t *testing.T, named bool, before ...string) *server {
		t.Helper()
		o := options{model: h.b.Dir, flags: h.flags, wrap: privately(t, strings.Join(append(before, mounted(dir)), "\n"))}
		if named {
			o.shmDir = dir
		}
		s := newServer(t, o)
		s.start()
		return s
	}
	serves := func(t *testing.T, s *server, inPool bool) {
		t.Helper()
		s.awaitReady()
		tables, _ := s.wantPages()
		if (tables > 0) != inPool {
			t.Errorf("got %d bytes of tables from the pool, want some: %v", tables, inPool)
		}
		if s.fellBack("hugetlb in "+dir) == inPool {
			t.Errorf("got a log that tells of a place that was passed over: %v, want %v", !inPool, inPool)
		}
		s.probe(h.exam, h.seed)
		t.Logf("tables: %s; region: %s", s.status().Tables.Pages, s.status().Region.Pages)
		s.stop()
	}
	t.Run("enough in the pool", func(t *testing.T) {
		pool(t, h.tables+h.region)
		serves(t, start(t, false), true)
		serves(t, start(t, true), true)
		wantPoolFree(t, h.tables+h.region)
	})
	t.Run("none in the pool", func(t *testing.T) {
		pool(t, 0)
		serves(t, start(t, false), false)
		start(t, true).wantRefused(bytesOf(h.b), "hugetlb pool", dir)
	})
	t.Run("one too few in the pool", func(t *testing.T) {
		pool(t, h.tables-1)
		serves(t, start(t, false), false)
		start(t, true).wantRefused(bytesOf(h.b), "hugetlb pool", dir)
	})
	t.Run("limited by the cgroup", func(t *testing.T) {
		pool(t, h.tables+h.region)
		bytes := strconv.Itoa((h.tables - 1) * hugePage)
		group := cgroup(t, "hugetlb", map[string]string{"hugetlb.2MB.max": bytes, "hugetlb.2MB.limit_in_bytes": bytes})
		serves(t, start(t, false, joining(group)), false)
		start(t, true, joining(group)).wantRefused(bytesOf(h.b), "the kernel refused more", dir)
		wantPoolFree(t, h.tables+h.region)
	})
}

// Two servers start at the same time, and the pool has pages for one and a half. Each has to end up with whole tables on
// whatever pages it got.
func TestServersThatCompeteForHugePagesBothServe(t *testing.T) {
	h := newHuge(t)
	pages := h.tables + h.tables/2 + 1
	pool(t, pages)
	for range 3 {
		var both []*server
		for range 2 {
			s := newServer(t, options{model: h.b.Dir, flags: h.flags, wrap: privately(t, mounted(t.TempDir()))})
			s.start()
			both = append(both, s)
		}
		inPool := int64(0)
		for _, s := range both {
			s.awaitReady()
			tables, region := s.wantPages()
			inPool += tables + region
			s.probe(h.exam, h.seed)
			if tables == 0 && !s.fellBack("hugetlb in ") {
				t.Error("got tables that are not from the pool and no word about it in the log")
			}
			t.Logf("tables: %s; region: %s", s.status().Tables.Pages, s.status().Region.Pages)
		}
		if inPool > int64(pages)*hugePage {
			t.Errorf("got %d bytes from a pool of %d pages", inPool, pages)
		}
		for _, s := range both {
			s.stop()
		}
		wantPoolFree(t, pages)
	}
}

// A tmpfs with huge pages that is larger than what the cgroup allows: allocating there would wake the OOM killer.
func TestHugeTmpfsBeyondTheMemoryOfTheCgroupIsRefused(t *testing.T) {
	b := demoModel(t, "demo-wide", 10_000)
	group := cgroup(t, "memory", map[string]string{"memory.limit_in_bytes": strconv.Itoa(64 << 20), "memory.max": strconv.Itoa(64 << 20)})
	dir := t.TempDir()
	if err := unix.Mount("rankd-e2e", dir, "tmpfs", 0, "size=256m,huge=always"); err != nil {
		t.Skipf("mounts a tmpfs with huge pages, which is not possible here: %v", err)
	} else if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, options{
		model: b.Dir, flags: []string{"--executor=sim", "--buckets=1,8,32"}, shmDir: dir,
		wrap: privately(t, joining(group)+"\nmount -t tmpfs -o size=256m,huge=always rankd-e2e "+dir),
	})
	s.start()
	s.wantRefused(bytesOf(b), "cgroup")
}
