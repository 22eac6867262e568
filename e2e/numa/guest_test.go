package numa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/procmem"
	"rankd/internal/testutil"
	"rankd/internal/topology"
	"rankd/supervisor"
)

// beGuest is the first process of the emulated machine: it mounts what a server needs, runs the tests and turns the machine off.
func beGuest(m *testing.M) {
	code := 1
	if err := mountAll(); err != nil {
		fmt.Println("guest:", err)
	} else {
		code = m.Run()
	}
	fmt.Println("guest: exit code", code)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	os.Exit(code) // the kernel panics, and with panic=-1 qemu ends
}

func mountAll() error {
	for _, m := range [][3]string{{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"tmpfs", "/tmp", ""}, {"tmpfs", "/run", ""}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, m[2]); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	if err := os.MkdirAll("/dev/shm", 0o777); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1500m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	out, err := exec.Command("/rankd", "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("run rankd: %w: %s", err, out)
	}
	return loopbackUp()
}

// loopbackUp turns on the loopback interface.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("turn on lo: %w", err)
	}
	return nil
}

func inGuest(t *testing.T) {
	t.Helper()
	if os.Getpid() != 1 {
		t.Skip("runs in the emulated machine: make numa")
	}
}

// guestServer is a server in the guest.
type guestServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string
	state *supervisor.State
}

const runDir, instance = "/run/rankd", "numa"

// serve starts a server and waits until it is ready. At the end of the test it is stopped.
func serve(t *testing.T, flags ...string) *guestServer {
	t.Helper()
	s := &guestServer{t: t, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command("/rankd", append([]string{
		"serve", "--model=/demo", "--executor=sim", "--buckets=1,64", "--instance=" + instance, "--run-dir=" + runDir, "--steering=none",
		"--listen=127.0.0.1:8500", "--http=127.0.0.1:8501", "--log-format=text",
	}, flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	testutil.Eventually(t, 2*time.Minute, "a ready server", func() bool {
		answer, err := http.Get("http://127.0.0.1:8501/readyz")
		if err != nil {
			if unix.Kill(s.cmd.Process.Pid, 0) != nil {
				t.Fatalf("the server has ended:\n%s", s.logText())
			}
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	if s.state, err = supervisor.ReadState(runDir, instance); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(began).Round(100*time.Millisecond))
	return s
}

func (s *guestServer) logText() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

// stop ends the server. The machine's first process is also the parent of whatever is left behind, but there is nothing.
func (s *guestServer) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(unix.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stop server: %v", err)
	}
	s.cmd = nil
	if s.t.Failed() {
		s.t.Logf("log of the server:\n%s", s.logText())
	}
}

func (s *guestServer) status() (st supervisor.Status) {
	s.t.Helper()
	answer, err := http.Get("http://127.0.0.1:8501/statusz?format=json")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// wantScores has a few requests scored.
func (s *guestServer) wantScores() {
	s.t.Helper()
	out, err := exec.Command("/rankd", "predict", "--model=/demo", "--quiet", "--connections=4", "--concurrency=4").CombinedOutput()
	if err != nil {
		s.t.Errorf("predict: %v\n%s", err, out)
	}
}

// process finds a child in the state file.
func (s *guestServer) process(role string, index int) supervisor.Child {
	s.t.Helper()
	for _, c := range s.state.Children {
		if c.Role == role && c.Index == index {
			return c
		}
	}
	s.t.Fatalf("find %s %d: the state file has none", role, index)
	return supervisor.Child{}
}

// wantCPUs looks at the affinity of a process.
func (s *guestServer) wantCPUs(c supervisor.Child, want string) {
	s.t.Helper()
	if got, err := topology.Affinity("", strconv.Itoa(c.PID)); err != nil || got.String() != want {
		s.t.Errorf("%s %d: may run on %s (%v), want %s", c.Role, c.Index, got, err, want)
	}
}

// lies sums up on which nodes the pages of files lie that a process has mapped, by a part of their paths, and with which policy.
func (s *guestServer) lies(pid int, part string) (nodes [2]int64, policy, path string) {
	s.t.Helper()
	list, err := procmem.ReadNUMA(strconv.Itoa(pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range list {
		if !strings.Contains(m.Path, part) {
			continue
		}
		policy, path = m.Policy, m.Path
		for n, bytes := range m.Nodes {
			nodes[n] += bytes
		}
	}
	return nodes, policy, path
}

// wantOn wants the bytes of a file all on one node.
func (s *guestServer) wantOn(c supervisor.Child, part string, node int) (path string) {
	s.t.Helper()
	nodes, policy, path := s.lies(c.PID, part)
	s.t.Logf("%s %d, %s: %v, policy %s, %s", c.Role, c.Index, part, nodes, policy, path)
	s.wantPolicy(c, part, policy, fmt.Sprintf("prefer:%d", node))
	if nodes[node] == 0 || nodes[1-node] != 0 {
		s.t.Errorf("%s %d, %s: got %v, want all on node %d", c.Role, c.Index, part, nodes, node)
	}
	return path
}

// wantHalves wants the bytes of a file half on each node.
func (s *guestServer) wantHalves(c supervisor.Child, part string) {
	s.t.Helper()
	nodes, policy, path := s.lies(c.PID, part)
	s.t.Logf("%s %d, %s: %v, policy %s, %s", c.Role, c.Index, part, nodes, policy, path)
	if apart := nodes[0] - nodes[1]; nodes[0] == 0 || max(apart, -apart) > 2<<20 {
		s.t.Errorf("%s %d, %s: got %v, want halves", c.Role, c.Index, part, nodes)
	}
	s.wantPolicy(c, part, policy, "interleave:0-1")
}

func (s *guestServer) wantNoWarning() {
	s.t.Helper()
	if log := s.logText(); strings.Contains(log, "it was placed") || strings.Contains(log, "not placed") {
		s.t.Errorf("got a warning that something is not where it was placed:\n%s", log)
	}
}

func TestGuestHasTwoNodes(t *testing.T) {
	inGuest(t)
	m, err := topology.Read("")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Nodes) != 2 || m.Nodes[0].CPUs.String() != "0-1" || m.Nodes[1].CPUs.String() != "2-3" || m.Nodes[0].Distance[1] != 21 || m.Packages() != 2 {
		t.Fatalf("got %+v, want two nodes of two CPUs", m.Nodes)
	}
	for i := range m.Nodes {
		if m.Nodes[i].Memory < 900<<20 {
			t.Errorf("node %d: got %d bytes of memory, want about 1 GiB", i, m.Nodes[i].Memory)
		}
	}
}

// pages are ways to get pages in the guest.
var pages = []struct {
	name           string
	mount, options string // of a filesystem at /huge; empty: /dev/shm is used
}{
	{"merged", "", ""},
	{"huge", "tmpfs", "huge=always,size=700m"},
	{"reserved", "hugetlbfs", "pagesize=2M"},
}

// reserve puts huge pages into the pool of each node.
func reserve(t *testing.T, pages int) {
	t.Helper()
	for node := range 2 {
		path := fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", node)
		if err := os.WriteFile(path, []byte(strconv.Itoa(pages)), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// onPages runs a test on each kind of pages.
func onPages(t *testing.T, test func(t *testing.T, flags []string)) {
	inGuest(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			if p.mount == "" {
				test(t, nil)
				return
			}
			if p.mount == "hugetlbfs" {
				reserve(t, 40)
				t.Cleanup(func() { reserve(t, 0) })
			}
			if err := unix.Mount(p.mount, "/huge", p.mount, 0, p.options); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount("/huge", 0); err != nil {
					t.Errorf("unmount: %v: something still uses it", err)
				}
			})
			test(t, []string{"--shm-dir=/huge"})
		})
	}
}

// wantPolicy wants a mapping's policy as the kernel writes it. A process that maps a file of hugetlbfs does not see the policy of the
// process that made it: there only the pages tell.
func (s *guestServer) wantPolicy(c supervisor.Child, part, got, want string) {
	s.t.Helper()
	if got != want && !strings.HasSuffix(s.t.Name(), "/reserved") {
		s.t.Errorf("%s %d, %s: got policy %s, want %s", c.Role, c.Index, part, got, want)
	}
}

func TestGuestAutoSpreadsFrontendsAndInterleavesTables(t *testing.T) {
	onPages(t, func(t *testing.T, flags []string) {
		s := serve(t, append(flags, "--frontends=2")...)
		s.wantScores()
		for i, cpus := range []string{"0-1", "2-3"} {
			s.wantCPUs(s.process("frontend", i), cpus)
			s.wantHalves(s.process("frontend", i), ".tables.")
		}
		s.wantCPUs(s.process("deviceowner", 0), "0-3")
		st := s.status()
		if apart := st.Tables.Nodes[0] - st.Tables.Nodes[1]; max(apart, -apart) > 2<<20 || st.Tables.Placement != "interleave over nodes 0-1" {
			t.Errorf("status: got tables %+v, want halves", st.Tables)
		}
		s.wantNoWarning()
	})
}

func TestGuestLocalCopiesAreReadWhereTheyLieAndAttachedAgain(t *testing.T) {
	onPages(t, func(t *testing.T, flags []string) {
		flags = append(flags, "--frontends=2", "--tables-placement=local-copies", "--keep-tables")
		for start := range 2 {
			s := serve(t, flags...)
			s.wantScores()
			var paths []string
			for node := range 2 {
				path := s.wantOn(s.process("frontend", node), ".tables.", node)
				if !strings.HasSuffix(path, fmt.Sprintf(".nodes%d", node)) {
					t.Errorf("frontend %d: reads %s, want the copy of node %d", node, path, node)
				}
				paths = append(paths, path)
			}
			st := s.status()
			if len(st.Copies) != 1 || st.Tables.Attached != (start == 1) || st.Copies[0].Attached != (start == 1) {
				t.Errorf("start %d: got tables %+v and copies %+v", start, st.Tables, st.Copies)
			}
			s.wantNoWarning()
			s.stop()
			for _, path := range paths {
				if start == 1 {
					if err := os.Remove(path); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

func TestGuestOneNodeHasEverything(t *testing.T) {
	onPages(t, func(t *testing.T, flags []string) {
		s := serve(t, append(flags, "--frontends=2", "--placement=node=1")...)
		s.wantScores()
		for _, c := range s.state.Children {
			s.wantCPUs(c, "2-3")
		}
		s.wantOn(s.process("frontend", 0), ".tables.", 1)
		s.wantOn(s.process("frontend", 1), ".tables.", 1)
		if st := s.status(); st.Region.Nodes[0] != 0 || st.Region.Nodes[1] != st.Region.Bytes {
			t.Errorf("got slabs %+v, want all on node 1", st.Region)
		}
		s.wantNoWarning()
	})
}

func TestGuestTablesLieOnTheNodeThatWasNamed(t *testing.T) {
	inGuest(t)
	s := serve(t, "--placement=cpus=3", "--tables-placement=node=0")
	s.wantScores()
	s.wantCPUs(s.process("frontend", 0), "3")
	s.wantCPUs(s.process("deviceowner", 0), "3")
	s.wantOn(s.process("frontend", 0), ".tables.", 0)
	out, err := exec.Command("/rankd", "inspect", "placement", "--run-dir="+runDir, "--instance="+instance).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "node 0: ") || strings.Count(string(out), "node 1: ") < 3 { // the slabs are on node 1
		t.Errorf("inspect placement: got %v\n%s", err, out)
	}
	t.Logf("inspect placement:\n%s", out)
	s.wantNoWarning()
}

// What cannot be had is told: the node is filled before the server starts.
func TestGuestFullNodeIsRefusedOrWarnedOf(t *testing.T) {
	inGuest(t)
	// The kernel keeps some of each node for itself, and by default more than these tables take. What is in the page cache counts as available,
	// but whoever prefers a node does not get it.
	for path, value := range map[string]string{"/proc/sys/vm/min_free_kbytes": "2048", "/proc/sys/vm/drop_caches": "3"} {
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	const left = 16 << 20 // less than the tables
	for range 20 {
		m, err := topology.Read("")
		if err != nil {
			t.Fatal(err)
		}
		available := m.Node(1).Available
		t.Logf("node 1 has %d MiB available", available>>20)
		if available < left {
			break
		}
		free := fill(t, 1, max(available-left/2, 2<<20))
		defer free()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/rankd", "serve", "--model=/demo", "--executor=sim", "--buckets=1,64", "--instance="+instance, "--run-dir="+runDir,
		"--listen=127.0.0.1:8500", "--http=", "--tables-placement=node=1", "--log-format=text").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "check --tables-placement: got node=1: node 1 has ") {
		t.Errorf("full node: got %v, want it refused\n%s", err, out)
	}
	s := serve(t, "--placement=node=1") // tables: auto
	s.wantScores()
	for _, want := range []string{"nodes of the tables have too little free memory", "shared memory does not lie where it was placed"} {
		if !strings.Contains(s.logText(), want) {
			t.Errorf("got no warning %q", want)
		}
	}
	if nodes, _, _ := s.lies(s.process("frontend", 0).PID, ".tables."); nodes[0] == 0 {
		t.Errorf("tables: got %v, want some on the other node", nodes)
	}
}

// fill takes memory, first of one node, until free is called. It prefers and does not bind: where a bound cannot be kept, the kernel
// ends processes, and here there is only the first one.
func fill(t *testing.T, node int, bytes int64) (free func()) {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask unix.CPUSet
	mask.Set(node)
	if err := unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SetMemPolicy(unix.MPOL_DEFAULT, nil) }()
	if err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE); err != nil {
		t.Fatalf("fill node %d with %d bytes: %v", node, bytes, err)
	}
	return func() { _ = unix.Munmap(mem) }
}
