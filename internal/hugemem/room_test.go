package hugemem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/internal/procmem"
)

// fakeRoot writes files below a directory that stands for "/".
func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCgroupRoom(t *testing.T) {
	const v1 = "33 32 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "33 32 0:32 / /cg rw - cgroup2 cgroup2 rw\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
		ok    bool
	}{
		{"none", map[string]string{}, 0, false},
		{"v2, the parent is tighter", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2,
			"cg/a/memory.max": "1000\n", "cg/a/memory.current": "900\n", "cg/a/memory.stat": "anon 1\ninactive_file 50\nactive_file 30\n",
			"cg/a/b/memory.max": "5000\n", "cg/a/b/memory.current": "100\n",
		}, 180, true},
		{"v2 without limits", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2, "cg/a/memory.max": "max\n", "cg/a/memory.current": "1\n",
		}, 0, false},
		{"v2, over the limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2, "cg/a/memory.max": "10\n", "cg/a/memory.current": "11\n",
		}, 0, true},
		{"v1", map[string]string{
			"proc/self/cgroup": "4:cpu:/x\n9:memory:/a\n", "proc/self/mountinfo": v1,
			"cg/memory/memory.limit_in_bytes": "9223372036854771712\n", "cg/memory/memory.usage_in_bytes": "1\n",
			"cg/memory/a/memory.limit_in_bytes": "1000\n", "cg/memory/a/memory.usage_in_bytes": "500\n",
			"cg/memory/a/memory.stat": "total_inactive_file 100\n",
		}, 600, true},
		{"mounted from inside the hierarchy", map[string]string{
			"proc/self/cgroup": "0::/pod/a\n", "proc/self/mountinfo": strings.Replace(v2, " / ", " /pod ", 1),
			"cg/a/memory.max": "10\n", "cg/a/memory.current": "3\n",
		}, 7, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := cgroupRoom(fakeRoot(t, tt.files))
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %d, %v, want %d, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestMountsAreParsed(t *testing.T) {
	root := fakeRoot(t, map[string]string{"proc/self/mountinfo": "" +
		"30 25 0:27 / /dev/shm rw,relatime shared:3 - tmpfs tmpfs rw,size=24684092k\n" +
		"31 25 0:28 / /mnt/with\\040space rw - tmpfs tmpfs rw,huge=always\n" +
		"broken line\n"})
	m, err := readMounts(root)
	if err != nil || len(m) != 2 {
		t.Fatalf("got %+v, %v, want 2 mounts", m, err)
	}
	if m[0].device != "0:27" || m[0].point != "/dev/shm" || m[0].hugeTmpfs() {
		t.Errorf("first: got %+v", m[0])
	}
	if m[1].point != "/mnt/with space" || !m[1].hugeTmpfs() {
		t.Errorf("second: got %+v", m[1])
	}
}

func TestSmapsAreSummedInsideTheRangeOnly(t *testing.T) {
	const text = `1000-3000 r--s 00000000 00:01 1 /memfd:a b: c
Size:                  8 kB
Rss:                   4 kB
ShmemPmdMapped:        2 kB
VmFlags: rd sh
3000-5000 r--s 00000000 00:01 1 /x
Size:                  8 kB
Shared_Hugetlb:        8 kB
5000-7000 r--s 00000000 00:01 1 /y
Size:                  8 kB
Rss:                   8 kB
`
	list, err := procmem.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if p := sumOf(list, 0x1000, 0x5000); p != (pages{rss: 4 << 10, thp: 2 << 10, hugetlb: 8 << 10}) {
		t.Errorf("got %+v", p)
	}
}

func TestModeNames(t *testing.T) {
	for m := Auto; m <= Small; m++ {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: got %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("1g"); err == nil {
		t.Error("1g: got no error")
	}
}
