package hugemem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/internal/mounts"
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

func TestMountsOfHugePagesAreKnown(t *testing.T) {
	for options, want := range map[string]bool{"rw,size=24684092k": false, "rw,huge=always": true, "rw,huge=within_size": true, "rw,huge=never": false} {
		m := mounts.Mount{Type: "tmpfs", Options: strings.Split(options, ",")}
		if got := hugeTmpfs(m); got != want {
			t.Errorf("tmpfs with %s: got %v, want %v", options, got, want)
		}
	}
	if hugeTmpfs(mounts.Mount{Type: "ext4", Options: []string{"huge=always"}}) {
		t.Error("ext4: got huge pages")
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
