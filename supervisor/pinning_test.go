package supervisor

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rankd/internal/placement"
	"rankd/internal/topology"
)

// TestI10ChildrenRunWhereThePlanSays has the first frontend and the owner pinned, and the second frontend not: it runs where the supervisor may,
// although the thread that forked it was pinned before.
func TestI10ChildrenRunWhereThePlanSays(t *testing.T) {
	everywhere, err := topology.Affinity("", "self")
	if err != nil {
		t.Fatal(err)
	}
	if len(everywhere) < 2 {
		t.Skipf("keeps processes from CPUs: want two to choose from, got %s", everywhere)
	}
	only := topology.Set{everywhere[len(everywhere)-1]}
	s := testServer(t, nil)
	s.deps.Placement = &placement.Plan{
		Asked: "cpus=" + only.String(), AskedTables: "auto",
		Frontends: []placement.Frontend{{CPUs: only}, {}}, Owner: placement.Owner{CPUs: only},
	}
	s.start()
	want := func(st Status) {
		t.Helper()
		for _, p := range st.Processes {
			cpus := only
			if p.Role == roleFrontend && p.Index == 1 {
				cpus = everywhere
			}
			got, err := topology.Affinity("", strconv.Itoa(p.PID))
			if err != nil || !got.Equal(cpus) || p.CPUs != cpus.String() {
				t.Errorf("%s %d: may run on %s (%v), status says %s, want %s", p.Role, p.Index, got, err, p.CPUs, cpus)
			}
		}
	}
	st := s.awaitReady()
	want(st)
	if st.Placement == nil || st.Placement.Asked != "cpus="+only.String() || len(st.Placement.Plan) == 0 {
		t.Errorf("got placement %+v, want what was asked and the plan", st.Placement)
	}
	first := st.Processes[1]
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want(s.await("a successor", func(st Status) bool {
		return st.Processes[1].Incarnation == 2 && st.Processes[1].State == "ready"
	}))
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// The test process stands for a child that was pinned to a CPU which went away, and runs on others.
func TestProcessThatRunsElsewhereIsTold(t *testing.T) {
	everywhere, err := topology.Affinity("", "self")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := &place{role: roleOwner, process: &process{identity: identity{PID: os.Getpid()}}}
	l := &loop{server: &server{log: slog.New(slog.NewTextHandler(&log, nil)), deps: Deps{Placement: &placement.Plan{Owner: placement.Owner{CPUs: everywhere}}}}}
	if l.checkPinned(p); log.Len() > 0 || !p.cpus.Equal(everywhere) {
		t.Errorf("as planned: got CPUs %s and log %q, want %s and none", p.cpus, log.String(), everywhere)
	}
	l.deps.Placement.Owner.CPUs = topology.Set{topology.MaxNumber}
	l.checkPinned(p)
	if want := `cpus=` + everywhere.String() + ` want=8191`; !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), want) {
		t.Errorf("elsewhere: got log %q, want a warning with %q", log.String(), want)
	}
}

func TestCPUsThatAreGoneAreTold(t *testing.T) {
	s := testServer(t, nil)
	s.deps.Placement = &placement.Plan{Owner: placement.Owner{CPUs: topology.Set{topology.MaxNumber}}}
	s.start()
	s.await("a device owner that cannot be started", func(st Status) bool {
		return strings.Contains(st.Processes[0].LastEnd, "pin child to CPUs 8191")
	})
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func TestFrontendsReadTheCopyOfTheirNode(t *testing.T) {
	l := &loop{server: &server{
		tables: &Tables{FD: 10, More: []TableCopy{{FD: 11}, {FD: 12}}},
		deps:   Deps{Placement: &placement.Plan{Frontends: []placement.Frontend{{Copy: 0}, {Copy: 2}, {Copy: 1}, {Copy: 3}}}},
	}}
	for index, want := range []int{10, 12, 11, 10, 10} { // a plan that knows less than there are frontends or copies is no reason to die
		if got := l.tablesFor(&place{role: roleFrontend, index: index}); got != want {
			t.Errorf("frontend %d: got descriptor %d, want %d", index, got, want)
		}
	}
	l.deps.Placement = nil
	if got := l.tablesFor(&place{role: roleFrontend, index: 1}); got != 10 {
		t.Errorf("without a plan: got descriptor %d, want 10", got)
	}
}

func TestNodesOfTheTablesAreShownAndExported(t *testing.T) {
	s := testServer(t, nil)
	load := s.deps.LoadTables
	s.deps.LoadTables = func(ctx context.Context, instance string, progress func(done, total int64)) (*Tables, error) {
		tables, err := load(ctx, instance, progress)
		if err == nil {
			tables.Memory.Nodes = map[int]int64{0: 3 << 20, 1: 1 << 20}
			tables.More = []TableCopy{{FD: tables.FD, Memory: Memory{Bytes: 4 << 20, Nodes: map[int]int64{8: 4 << 20, 1: 1 << 20}}}}
		}
		return tables, err
	}
	s.deps.Placement = &placement.Plan{
		Asked: "auto", AskedTables: "local-copies", Frontends: make([]placement.Frontend, 2), Notes: []string{"the accelerator is elsewhere"},
	}
	s.start()
	s.awaitReady()
	_, metrics := s.get("/metrics")
	for _, want := range []string{
		`rankd_table_node_bytes{node="0"} 3.145728e+06`, `rankd_table_node_bytes{node="1"} 2.097152e+06`, `rankd_table_node_bytes{node="8"} 4.194304e+06`,
		"rankd_table_bytes 5.24288e+06",
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics: want %s", want)
		}
	}
	_, page := s.get("/statusz?format=html")
	for _, want := range []string{"auto, tables local-copies", "node 0: 3.00 MiB, node 1: 1.00 MiB", "node 1: 1.00 MiB, node 8: 4.00 MiB", "the accelerator is elsewhere", "CPUs "} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}
