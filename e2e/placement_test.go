package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/procmem"
	"rankd/internal/topology"
	"rankd/supervisor"
)

// oneCPU is a CPU that this process may use and the node that it is on; the test skips where there is no other one to be kept from.
func oneCPU(t testing.TB) (cpu, node int) {
	t.Helper()
	m, err := topology.Read("")
	if err != nil {
		t.Fatal(err)
	}
	a, err := topology.Allowed("", "self", m)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.CPUs) < 2 {
		t.Skipf("keeps processes from CPUs: want two to choose from, got %s", a.CPUs)
	}
	cpu = a.CPUs[len(a.CPUs)-1]
	return cpu, m.NodeOf(cpu)
}

// wantThreadsOn checks the affinity of every thread of a process.
func wantThreadsOn(t testing.TB, c supervisor.Child, want string) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", c.PID))
	if err != nil || len(threads) == 0 {
		t.Fatalf("find threads of %s %d: got %v, %v", c.Role, c.Index, threads, err)
	}
	for _, dir := range threads {
		cpus, err := topology.Affinity("", fmt.Sprintf("%d/task/%s", c.PID, filepath.Base(dir)))
		if err == nil && cpus.String() != want { // a thread may have ended
			t.Errorf("%s %d, thread %s: may run on %s, want %s", c.Role, c.Index, filepath.Base(dir), cpus, want)
		}
	}
}

// numaOf finds a mapping of a process by a part of its path.
func numaOf(t testing.TB, c supervisor.Child, part string) procmem.NUMAMapping {
	t.Helper()
	list, err := procmem.ReadNUMA(strconv.Itoa(c.PID))
	if errors.Is(err, procmem.ErrNoNUMA) {
		t.Skip("no NUMA in this kernel")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if strings.Contains(m.Path, part) {
			return m
		}
	}
	t.Fatalf("find %q among the mappings of %s %d: there is none", part, c.Role, c.Index)
	return procmem.NUMAMapping{}
}

func TestProcessesAndTablesAreWhereTheyWerePlaced(t *testing.T) {
	cpu, node := oneCPU(t)
	b := testModel(t)
	only := strconv.Itoa(cpu)
	s := serve(t, options{model: b.Dir, flags: []string{
		"--executor=sim", "--sim-verify=full", "--placement=cpus=" + only, fmt.Sprintf("--tables-placement=node=%d", node),
	}})
	seed := seedOf(t)
	s.probe(newExam(t, b, seed, 256, simulated(t, b.Manifest)), seed)
	for _, c := range append(s.frontends(), s.owner()) {
		wantThreadsOn(t, c, only)
	}
	everywhere, err := topology.Affinity("", "self")
	if err != nil {
		t.Fatal(err)
	}
	if own, err := topology.Affinity("", strconv.Itoa(s.pid)); err != nil || !own.Equal(everywhere) {
		t.Errorf("supervisor: may run on %s (%v), want %s", own, err, everywhere)
	}

	front := s.frontends()[0]
	tables := numaOf(t, front, ".tables.")
	label := fmt.Sprintf(".nodes%d", node)
	if tables.Policy != fmt.Sprintf("prefer:%d", node) || !strings.HasSuffix(tables.Path, label) || tables.Nodes[node] < bytesOf(b) || len(tables.Nodes) != 1 {
		t.Errorf("tables of the frontend: got %+v, want all on node %d by preference, and %s at the end of the name", tables, node, label)
	}
	st := s.status()
	for _, p := range st.Processes {
		if p.CPUs != only {
			t.Errorf("status of %s %d: got CPUs %q, want %s", p.Role, p.Index, p.CPUs, only)
		}
	}
	if st.Tables.Nodes[node] != st.Tables.Bytes || st.Region.Nodes[node] == 0 || st.Placement.Asked != "cpus="+only {
		t.Errorf("status: got tables %+v, region %+v, placement %+v, want all on node %d", st.Tables, st.Region, st.Placement, node)
	}
	if m := s.scrape(); m[fmt.Sprintf(`rankd_table_node_bytes{node="%d"}`, node)] != float64(st.Tables.Bytes) {
		t.Errorf("metrics: got %v bytes of tables on node %d, want %d", m.sum("rankd_table_node_bytes"), node, st.Tables.Bytes)
	}
	out, err := s.inspect("placement")
	if err != nil || strings.Count(out, fmt.Sprintf("node %d: ", node)) < 4 || !strings.Contains(out, fmt.Sprintf("%8d  %-20s", front.PID, only)) {
		t.Errorf("inspect placement: got %v:\n%s", err, out)
	}

	send(t, front, unix.SIGKILL)
	s.awaitWhole(front)
	wantThreadsOn(t, s.frontends()[0], only)
	if strings.Contains(s.logSinceStart(), "where it was placed") {
		t.Error("got a warning that something is not where it was placed, want none")
	}
}

func TestThreadsOfTheCPUPlatformAreAsManyAsItsCPUs(t *testing.T) {
	plugin := pjrttest.CPU(t)
	cpu, _ := oneCPU(t)
	b := testModel(t)
	s := serve(t, options{model: b.Dir, flags: []string{
		"--plugin=" + plugin, "--buckets=1,64", "--executable-cache=", fmt.Sprintf("--placement=cpus=%d", cpu),
	}})
	seed := seedOf(t)
	s.probe(newExam(t, b, seed, 256, closedForm), seed)
	wantThreadsOn(t, s.owner(), strconv.Itoa(cpu))
	if log := s.logSinceStart(); !strings.Contains(log, `"device_threads":1,`) {
		t.Errorf("got no device with one thread in the log")
	}
}

// Copies stay over a restart, are attached again, and go when another placement is asked for.
func TestLocalCopiesAreKeptAndReplaced(t *testing.T) {
	_, node := oneCPU(t)
	b, seed := testModel(t), seedOf(t)
	e := newExam(t, b, seed, 256, simulated(t, b.Manifest))
	s := newServer(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--keep-tables", "--tables-placement=local-copies"}})
	s.keep = true
	s.start()
	s.awaitReady()
	s.probe(e, seed)
	label := fmt.Sprintf(".nodes%d", node)
	if path := numaOf(t, s.frontends()[0], ".tables.").Path; !strings.HasSuffix(path, label) {
		t.Errorf("got tables %s, want %s at the end", path, label)
	}
	s.stop()
	s.start()
	s.awaitReady()
	if st := s.status(); !st.Tables.Attached {
		t.Errorf("second start: got %+v, want the tables attached", st.Tables)
	}
	s.probe(e, seed)
	s.stop()
	s.keep, s.o.flags = false, []string{"--executor=sim", "--sim-verify=full"}
	s.start()
	s.awaitReady()
	st := s.status()
	if st.Tables.Attached || strings.HasSuffix(st.Tables.Path, label) {
		t.Errorf("start without copies: got %+v, want tables loaded anew", st.Tables)
	}
	if files := filesOf(s.instance, "/dev/shm", filepath.Dir(st.Tables.Path)); slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, label) }) {
		t.Errorf("got files %v, want the copy removed", files)
	}
	s.probe(e, seed)
}

func TestWrongPlacementsAreRefused(t *testing.T) {
	b := testModel(t)
	for name, c := range map[string]struct{ flags, want string }{
		"CPU that is not there":  {"--placement=cpus=8000", "check --placement: got CPU 8000, want some of"},
		"node that is not there": {"--placement=node=900", "check --placement: got node 900, want some of"},
		"empty list":             {"--placement=cpus=", "check --placement: got"},
		"no list":                {"--placement=cpus=1-0", "check --placement: got"},
		"no word":                {"--placement=everywhere", "want auto, node=N[,M] or cpus=LIST"},
		"no node for tables":     {"--tables-placement=node=900", "check --tables-placement: got node 900, want one of"},
		"CPU of the owner":       {"--owner-cpus=8000", "check --owner-cpus: got CPU 8000, want some of"},
		"frontends":              {"--placement=cpus=0 --frontends=2", "check --frontends: got 2, want at most 1: --placement cpus=0 has no more CPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, options{model: b.Dir, flags: append([]string{"--executor=sim"}, strings.Fields(c.flags)...)})
			s.start()
			s.awaitEnd(limit)
			if code := s.cmd.ProcessState.ExitCode(); code != 78 || !strings.Contains(s.logSinceStart(), c.want) {
				t.Errorf("got exit code %d and %q, want 78 and %q", code, s.logSinceStart(), c.want)
			}
		})
	}
	t.Run("CPU outside the affinity", func(t *testing.T) {
		cpu, _ := oneCPU(t)
		s := newServer(t, options{
			model: b.Dir, flags: []string{"--executor=sim", "--placement=cpus=0"}, wrap: []string{"taskset", "-c", strconv.Itoa(cpu)},
		})
		s.start()
		s.awaitEnd(limit)
		if want := fmt.Sprintf("want CPUs of this process's affinity, which are %d", cpu); !strings.Contains(s.logSinceStart(), want) {
			t.Errorf("got %q, want %q", s.logSinceStart(), want)
		}
	})
}

// A cpuset is found out about before anything is started, and a server without a placement of its own keeps to it.
func TestServerKeepsToItsCpuset(t *testing.T) {
	cpu, node := oneCPU(t)
	only := strconv.Itoa(cpu)
	group := cgroup(t, "cpuset", map[string]string{"cpuset.cpus": only, "cpuset.mems": strconv.Itoa(node)})
	b := testModel(t)
	flags := []string{"--executor=sim"}
	s := newServer(t, options{model: b.Dir, flags: append(flags, "--placement=cpus=0"), wrap: privately(t, joining(group))})
	s.start()
	s.awaitEnd(limit)
	if want := "check --placement: got CPU 0, want CPUs of the control group's cpuset, which are " + only + " ("; !strings.Contains(s.logSinceStart(), want) {
		t.Errorf("got %q, want %q", s.logSinceStart(), want)
	}
	s = serve(t, options{model: b.Dir, flags: flags, wrap: privately(t, joining(group))})
	for _, c := range append(s.frontends(), s.owner()) {
		wantThreadsOn(t, c, only)
	}
	s.stop()
}
