package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func TestI1LevelsGoUpToTheMount(t *testing.T) {
	const v1 = "33 32 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n34 32 0:33 / /cg/memory rw - cgroup cgroup rw,memory\n"
	const v2 = "35 32 0:34 / /cg/unified rw - cgroup2 cgroup2 rw\n"
	const inside = "35 32 0:34 /pod /cg rw - cgroup2 cgroup2 rw\n"
	for _, c := range []struct {
		name, cgroup, mounts string
		want                 []Level
	}{
		{"none", "", v2, nil},
		{"version 2", "0::/a/b\n", v2, []Level{{"/cg/unified/a/b", true}, {"/cg/unified/a", true}, {"/cg/unified", true}}},
		{"version 1, of the controller alone", "4:cpu,cpuacct:/x\n9:memory:/y\n", v1, []Level{{"/cg/cpu/x", false}, {"/cg/cpu", false}}},
		{"both", "4:cpu,cpuacct:/x\n0::/\n", v1 + v2, []Level{{"/cg/cpu/x", false}, {"/cg/cpu", false}, {"/cg/unified", true}}},
		{"mounted from inside the hierarchy", "0::/pod/a\n", inside, []Level{{"/cg/a", true}, {"/cg", true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(root, "proc/4711"), 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"self/cgroup": c.cgroup, "self/mountinfo": c.mounts, "4711/cgroup": "0::/other\n"} {
				if err := os.WriteFile(filepath.Join(root, "proc", file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := Levels(root, "self", "cpu")
			for i := range c.want {
				c.want[i].Dir = filepath.Join(root, c.want[i].Dir)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if other := Levels(root, "4711", "cpu"); strings.Contains(c.mounts, "cgroup2") && !strings.HasSuffix(other[0].Dir, "/other") {
				t.Errorf("another process: got %+v, want its own", other)
			}
		})
	}
}

func TestWithoutProcfsThereAreNoLevels(t *testing.T) {
	if got := Levels(t.TempDir(), "self", "cpu"); got != nil {
		t.Errorf("got %+v, want none", got)
	}
}
