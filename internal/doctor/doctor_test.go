package doctor

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/hugemem"
	"rankd/internal/steer"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// healthy are the files of a machine on which everything is right.
func healthy() map[string]string {
	return map[string]string{
		"proc/meminfo":                  "MemAvailable: 8388608 kB\nSwapTotal: 0 kB\n",
		"proc/self/cgroup":              "0::/system.slice/rankd.service\n",
		"proc/self/mountinfo":           "33 32 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n30 25 0:27 / /dev/shm rw - tmpfs tmpfs rw\n31 25 0:28 / /mnt/huge rw - tmpfs rankd rw,huge=always\n",
		"proc/self/limits":              "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 524288               files\nMax locked memory         unlimited            unlimited            bytes\n",
		"proc/self/status":              "Name:\trankd\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-3,8\n",
		"proc/buddyinfo":                "Node 0, zone   Normal   1 2 3 4 5 6 7 8 9 2000 200\n",
		"proc/sys/kernel/osrelease":     "6.18.1\n",
		"proc/sys/net/core/somaxconn":   "4096\n",
		"proc/net/tcp":                  "  sl  local_address rem_address st\n",
		"sys/fs/cgroup/memory.max":      "max\n",
		thp + "enabled":                 "always [madvise] never\n",
		thp + "shmem_enabled":           "always within_size advise [never] deny force\n",
		poolDir + "nr_hugepages":        "0\n",
		poolDir + "free_hugepages":      "0\n",
		poolDir + "resv_hugepages":      "0\n",
		service + "memory.max":          "max\n",
		service + "memory.current":      "0\n",
		service + "cpu.max":             "max 100000\n",
		service + "hugetlb.2MB.max":     "max\n",
		"proc/4711/comm":                "nginx\n",
		"proc/4711/limits":              "Max open files            1024                 4096               files\nMax locked memory         65536                65536                bytes\n",
		"proc/4711/status":              "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-1\n",
		"proc/4711/cgroup":              "0::/\n",
		"proc/4711/fd/.keep":            "",
		"sys/devices/system/cpu/online": "0-8\n",
	}
}

const (
	thp     = "sys/kernel/mm/transparent_hugepage/"
	poolDir = "sys/kernel/mm/hugepages/hugepages-2048kB/"
	service = "sys/fs/cgroup/system.slice/rankd.service/"
	gib     = 1 << 30
)

// patient is a machine that can be made ill.
type patient struct {
	Machine
	need  Need
	files map[string]string
}

func newPatient() *patient {
	p := &patient{files: healthy()}
	p.Machine = Machine{
		Space: func(string) (int64, int64, error) { return 16 * gib, 15 * gib, nil },
		Survey: func(o hugemem.Options) ([]hugemem.Offer, error) {
			return []hugemem.Offer{{Mode: hugemem.HugeTmpfs, Dir: "/mnt/huge", Need: o.Size, Room: 15 * gib, Limit: "filesystem"}}, nil
		},
		Merge: func() error { return nil },
		Pool:  func() error { return nil },
		Steer: func(steer.Policy, int) (steer.State, error) {
			return steer.State{Policy: steer.LeastConnections, Mechanism: steer.ByEBPF}, nil
		},
		Bind: func(string) error { return nil },
	}
	p.need = Need{Known: true, Tables: 4 * gib, Region: 64 << 20, Frontends: 2, Steering: steer.Auto, Listen: "127.0.0.1:8500", HTTP: "127.0.0.1:8501"}
	return p
}

func (p *patient) look(t *testing.T) *Report {
	t.Helper()
	p.Root = t.TempDir()
	for name, text := range p.files {
		path := filepath.Join(p.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p.files["proc/net/tcp"] != healthy()["proc/net/tcp"] {
		if err := os.Symlink("socket:[777]", filepath.Join(p.Root, "proc/4711/fd/3")); err != nil {
			t.Fatal(err)
		}
	}
	return Look(&p.Machine, &p.need)
}

func find(t *testing.T, r *Report, group, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Group == group && f.Check == check {
			return f
		}
	}
	t.Fatalf("got no finding %s/%s in %+v", group, check, r.Findings)
	return Finding{}
}

func TestHealthyMachineIsFoundSo(t *testing.T) {
	r := newPatient().look(t)
	for _, f := range r.Findings {
		if f.State != OK || f.Found == "" || f.Change != "" || len(f.Commands) > 0 {
			t.Errorf("got %+v, want ok", f)
		}
	}
	if len(r.Findings) < 18 {
		t.Errorf("got %d findings, want all", len(r.Findings))
	}
	if f := find(t, r, "pages", "tmpfs with huge pages"); f.Found != "/mnt/huge (huge=always, 15.00 GiB of 16.00 GiB free)" {
		t.Errorf("got %+v, want the mount", f)
	}
}

// listens is a line of /proc/net/tcp for a socket on port 8500 (2134 in hexadecimal).
const listens = "   0: 0100007F:2134 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1\n"

// Each row makes the machine ill in one way: what is found, and what is said to be done.
func TestI2IllnessesAreFoundWithTheirCures(t *testing.T) {
	taken := func(string) error { return unix.EADDRINUSE }
	offer := func(mode hugemem.Mode, dir string, room int64, limit string) func(*patient) {
		return func(p *patient) {
			p.Survey = func(o hugemem.Options) ([]hugemem.Offer, error) {
				return []hugemem.Offer{{Mode: mode, Dir: dir, Need: o.Size, Room: room, Limit: limit}}, nil
			}
		}
	}
	set := func(name, text string) func(*patient) { return func(p *patient) { p.files[name] = text } }
	for _, c := range []struct {
		group, check string
		make         func(*patient)
		state        State
		found        string // in the finding
		command      string // one of its commands; or, where there is none, a part of the change
	}{
		{"memory", "machine memory", set("proc/meminfo", "MemAvailable: 1048576 kB\n"), Fail, "1.00 GiB available, want 4.00 GiB of tables", "ps -eo"},
		{"memory", "machine memory", set("proc/meminfo", "MemAvailable: 4300000 kB\n"), Warn, "4.10 GiB available", "ps -eo"},
		{"memory", "cgroup memory", set(service+"memory.max", "1073741824\n"), Fail, "1.00 GiB left", "systemctl set-property rankd.service MemoryMax=4697620480"},
		{"memory", "cgroup memory", func(p *patient) { // the tightest of all levels, here that of a container in version 1
			p.files["proc/self/cgroup"] = "9:memory:/docker/c1\n"
			p.files["proc/self/mountinfo"] += "40 32 0:40 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
			const at = "sys/fs/cgroup/memory/docker/"
			p.files[at+"memory.limit_in_bytes"], p.files[at+"memory.usage_in_bytes"] = "1073741824\n", "805306368\n"
			p.files[at+"c1/memory.limit_in_bytes"], p.files[at+"c1/memory.usage_in_bytes"] = "1073741824\n", "1048576\n"
		}, Fail, "256.00 MiB left", "echo 5502926848 > /sys/fs/cgroup/memory/docker/memory.limit_in_bytes"},
		{"memory", "swap", func(p *patient) {
			p.files["proc/meminfo"] = "MemAvailable: 8388608 kB\nSwapTotal: 1024 kB\n"
			p.files["proc/self/limits"] = strings.ReplaceAll(p.files["proc/self/limits"], "unlimited", "8388608  ")
		}, Warn, "can't be locked", "swapoff -a"},
		{"pages", "tables", offer(hugemem.Small, "/dev/shm", 8*gib, "filesystem"), Warn, "on small pages", "mount -t tmpfs -o huge=always,size=4680m,mode=0700 rankd /mnt/rankd"},
		{"pages", "tables", offer(hugemem.Small, "/dev/shm", gib, "filesystem"), Fail, "no place has room for 4.00 GiB: the most is 1.00 GiB in /dev/shm (filesystem)", "mount -o remount,size=4680m /dev/shm"},
		{"pages", "tables", offer(hugemem.Hugetlb, "/mnt/pool", gib, "hugetlb pool"), Fail, "hugetlb pool", "sysctl -w vm.nr_hugepages=2081"},
		{"pages", "tables", func(p *patient) {
			offer(hugemem.Small, "", gib, "cgroup")(p)
			p.files[service+"memory.max"] = "1073741824\n"
		}, Fail, "(cgroup)", "systemctl set-property rankd.service MemoryMax="},
		{"pages", "tables", func(p *patient) {
			p.Survey = func(hugemem.Options) ([]hugemem.Offer, error) { return nil, hugemem.ErrFilesystem }
		}, Fail, "neither on tmpfs nor on hugetlbfs", "mkdir -p /mnt/rankd"},
		{"pages", "hugetlb pool", func(p *patient) {
			p.files[poolDir+"nr_hugepages"], p.files[poolDir+"free_hugepages"], p.files[poolDir+"resv_hugepages"] = "100\n", "60\n", "10\n"
		}, Warn, "50 of 100 pages of 2 MiB are free, want 2080", "sysctl -w vm.nr_hugepages=2130"},
		{"pages", "hugetlb pool", func(p *patient) {
			p.files[poolDir+"nr_hugepages"], p.files[poolDir+"free_hugepages"] = "9000\n", "9000\n"
			p.files[service+"hugetlb.2MB.max"] = "20971520\n"
		}, Warn, "the control group of this process may take 10", "sysctl"},
		{"pages", "transparent huge pages", func(p *patient) { p.Merge = func() error { return errors.New("no") } }, Warn, "enabled madvise, shmem_enabled never; the kernel did not merge", "echo advise >"},
		{"pages", "free huge blocks", set("proc/buddyinfo", "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 1 1\n"), Warn, "6.00 MiB in blocks", "echo 1 > /proc/sys/vm/compact_memory"},
		{"pages", "free huge blocks", func(p *patient) { delete(p.files, "proc/buddyinfo") }, Warn, "proc/buddyinfo", "nothing is known"},
		{"limits", "locked memory", func(p *patient) {
			p.files["proc/meminfo"] += "SwapTotal: 9 kB\n"
			p.files["proc/self/limits"] = strings.ReplaceAll(p.files["proc/self/limits"], "unlimited", "8388608  ")
		}, Warn, "8.00 MiB, of this process, want 4.06 GiB", "ulimit -l unlimited"},
		{"limits", "locked memory", func(p *patient) {
			p.files["proc/meminfo"] += "SwapTotal: 9 kB\n"
			p.files["proc/self/limits"] = strings.Replace(p.files["proc/self/limits"], "unlimited", "8388608  ", 1)
		}, Warn, "8.00 MiB, of this process, want 4.06 GiB", "ulimit -Sl hard"},
		{"limits", "open files", set("proc/self/limits", "Max open files 1024 1024 files\nMax locked memory unlimited unlimited bytes\n"), Warn, "at most 1024", "ulimit -Hn 65536"},
		{"limits", "open files", set("proc/self/limits", "Max locked memory unlimited unlimited bytes\n"), Warn, `find "Max open files"`, "nothing is known"},
		{"limits", "accept queue", set("proc/sys/net/core/somaxconn", "128\n"), Warn, "at most 128", "sysctl -w net.core.somaxconn=4096"},
		{"limits", "/dev/shm", func(p *patient) {
			p.Space = func(string) (int64, int64, error) { return 64 << 20, 60 << 20, nil }
		}, Warn, "60.00 MiB of 64.00 MiB free, want 4.00 GiB", "mount -o remount,size=4612m /dev/shm"},
		{"processors", "allowed", func(p *patient) { p.need.Frontends = 5 }, Warn, "5 (0-3,8), of this process", "set --frontends to at most 4"},
		{"processors", "owner-cpus", func(p *patient) { p.need.OwnerCPUs = []int{1, 7} }, Fail, "processor 7", "taskset -cp self"},
		{"processors", "cgroup quota", set(service+"cpu.max", "150000 100000\n"), Warn, "1.50 processors", "AllowedCPUs="},
		{"kernel", "version", set("proc/sys/kernel/osrelease", "5.15.0-91-generic\n"), Warn, "5.15.0-91-generic: pages are not merged", "install a newer kernel"},
		{"kernel", "version", set("proc/sys/kernel/osrelease", "5.10.0\n"), Warn, "touched one by one", "install a newer kernel"},
		{"kernel", "version", set("proc/sys/kernel/osrelease", "4.19.0\n"), Fail, "want 5.3", "install a newer kernel"},
		{"kernel", "version", set("proc/sys/kernel/osrelease", "plan 9\n"), Warn, `got "plan 9"`, "nothing is known"},
		{"kernel", "steering", func(p *patient) {
			p.Steer = func(steer.Policy, int) (steer.State, error) {
				return steer.State{Policy: steer.LeastConnections, Mechanism: steer.ByClassic, Why: "it takes CAP_BPF", Fallback: true}, nil
			}
		}, Warn, "least-connections by classic BPF: it takes CAP_BPF", "setcap cap_bpf=ep"},
		{"kernel", "steering", func(p *patient) {
			p.Steer = func(steer.Policy, int) (steer.State, error) { return steer.State{}, unix.EPERM }
		}, Fail, "operation not permitted", "setcap cap_bpf=ep"},
		{"kernel", "memfd of huge pages", func(p *patient) { p.Pool = func() error { return unix.ENOSYS } }, Warn, "function not implemented", "without a pool they need not"},
		{"ports", "listen", func(p *patient) { p.Bind = taken; p.files["proc/net/tcp"] += listens }, Fail, "127.0.0.1:8500 is held by process 4711 (nginx)", "kill 4711"},
		{"ports", "listen", func(p *patient) { p.Bind = taken }, Fail, "another user or container", "ss -ltnp 'sport = :8500'"},
		{"ports", "http", func(p *patient) { p.Bind = func(string) error { return unix.EADDRNOTAVAIL } }, Fail, "127.0.0.1:8501 is no address of this machine", "ip -brief address"},
		{"ports", "listen", func(p *patient) { p.need.Listen = ":80"; p.Bind = func(string) error { return unix.EACCES } }, Fail, "ports below 1024", "sysctl -w net.ipv4.ip_unprivileged_port_start=80"},
		{"ports", "listen", func(p *patient) { p.need.Listen = "8500" }, Fail, "missing port", "set --listen to host:port"},
	} {
		p := newPatient()
		c.make(p)
		f := find(t, p.look(t), c.group, c.check)
		said := strings.Join(append(slices.Clone(f.Commands), f.Change), "\n")
		if f.State != c.state || !strings.Contains(f.Found, c.found) || !strings.Contains(said, c.command) {
			t.Errorf("%s/%s: got %+v, want %s, %q, and %q to be done", c.group, c.check, f, c.state, c.found, c.command)
		}
		if f.Change == "" {
			t.Errorf("%s/%s: got nothing to change", c.group, c.check)
		}
	}
}

func TestI5LimitsAreThoseOfTheServerThatRuns(t *testing.T) {
	p := newPatient()
	p.need.ServerPID, p.need.TablesAt = 4711, "/dev/shm/rankd.x.tables.y"
	p.files["proc/net/tcp"] += listens
	p.Bind = func(string) error { return unix.EADDRINUSE }
	r := p.look(t)
	for check, want := range map[string]string{
		"limits/open files":    "at most 4096 in each process, one a connection, of the server, process 4711",
		"limits/locked memory": "CAP_IPC_LOCK, of the server, process 4711",
		"processors/allowed":   "2 (0-1), of the server",
		"ports/listen":         "held by the server that runs, process 4711",
		"pages/tables":         "in memory already: /dev/shm/rankd.x.tables.y",
		"memory/cgroup memory": "of the server",
	} {
		group, name, _ := strings.Cut(check, "/")
		if f := find(t, r, group, name); !strings.Contains(f.Found, want) {
			t.Errorf("%s: got %+v, want %q", check, f, want)
		}
	}
}

func TestI4SizeOfAnUnknownModelIsNotInvented(t *testing.T) {
	p := newPatient()
	p.need = Need{Frontends: 1, Listen: "127.0.0.1:0"}
	p.files["proc/self/limits"] = strings.ReplaceAll(p.files["proc/self/limits"], "unlimited", "8388608  ")
	for _, f := range p.look(t).Findings {
		if f.State != OK || strings.Contains(f.Found, "0 B of tables") {
			t.Errorf("got %+v, want ok without the size of a model", f)
		}
	}
}

func TestReportIsATableAndJSON(t *testing.T) {
	r := &Report{}
	r.Add("pages", ok("tables", "%s", strings.Repeat("many words ", 12)), warn("slabs", "small", "change it", "first", "second --flag"))
	r.Add("ports", fail("listen", "taken", "free it"))
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `pages
  ok    tables                  many words many words many words many words many words many words
                                many words many words many words many words many words many words
  warn  slabs                   small
                                -> change it
                                   $ first
                                   $ second --flag

ports
  fail  listen                  taken
                                -> free it

1 ok, 1 warnings, 1 failures
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		OK, Warn, Fail int
		Findings       []Finding
	}
	if err := json.Unmarshal(text, &back); err != nil || back.OK != 1 || back.Warn != 1 || back.Fail != 1 || len(back.Findings) != 3 || back.Findings[1].Commands[1] != "second --flag" {
		t.Errorf("got %+v, %v from %s", back, err, text)
	}
}

// The machine that the test runs on: whatever it is like, every check has an answer and nothing is left behind (TestMain).
func TestI1LookingAtThisMachineLeavesNothing(t *testing.T) {
	r := Look(This(), &Need{Known: true, Tables: 1 << 20, Region: 1 << 20, Frontends: 2, Steering: steer.Auto, Listen: testutil.Address(t), HTTP: "127.0.0.1:0"})
	for _, f := range r.Findings {
		if f.Found == "" || f.State != OK && f.Change == "" {
			t.Errorf("got %+v, want what was found and what to change", f)
		}
	}
	if f := find(t, r, "ports", "listen"); f.State != OK {
		t.Errorf("got %+v for a free port", f)
	}
}

func TestHolderOfARealPortIsFound(t *testing.T) {
	held := testutil.Address(t)
	m := This()
	l, err := net.Listen("tcp", held)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := m.port("listen", held, &Need{})
	if f.State != Fail || !strings.Contains(f.Found, "is held by process ") || len(f.Commands) != 1 {
		t.Errorf("got %+v, want this process", f)
	}
}
