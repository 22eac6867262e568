package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/faults"
	"rankd/supervisor"
)

// deed is what happens to a process at a point.
type deed string

const (
	kill     deed = "kill"           // SIGKILL
	stopKill deed = "stop and kill"  // SIGSTOP, and SIGKILL a moment later
	stopCont deed = "stop and go on" // SIGSTOP, and SIGCONT a moment later
	moment        = 150 * time.Millisecond
)

// occasion is what the server is doing meanwhile.
type occasion string

const (
	idle     occasion = "idle"     // one caller, one row at a time, with pauses
	steady   occasion = "steady"   // some callers
	alone    occasion = "alone"    // the same, with --batching=off: whoever reserves closes the slab
	crowded  occasion = "full"     // more callers than the slabs have room for
	draining occasion = "draining" // the same, after SIGTERM
)

// spot is a point and the process that is hit there.
type spot struct {
	role  string
	point string
	only  []occasion // where the point is visited; empty: on all
	needs string     // role of a process that the test must kill for the victim to come to the point
}

// spots are all sync points of the ring, and the points of the processes around it.
var spots = slices.Concat(
	spotsOf(faults.Frontend, "frontend.writer_odd", "frontend.reserved", "frontend.registered", "frontend.pending",
		"frontend.half_written", "frontend.entry_committed", "frontend.committed", "frontend.commit_rung", "frontend.writer_even",
		"frontend.taken", "frontend.delivered", "frontend.acked", "ring.bell_cleared"),
	[]spot{{role: faults.Frontend, point: "frontend.space_announced", only: []occasion{crowded, draining}}},
	spotsOf(faults.DeviceOwner, "owner.opening", "owner.opened", "owner.open_masked", "owner.closed", "owner.attempt", "owner.launch",
		"owner.executing", "owner.status", "owner.done", "owner.recycled", "owner.park_announced", "owner.turn"),
	[]spot{
		{role: faults.DeviceOwner, point: "owner.space_taken", only: []occasion{crowded, draining}},
		{role: faults.DeviceOwner, point: "owner.bits_cleared", needs: faults.Frontend},
		{role: faults.Supervisor, point: "supervisor.reaped", needs: faults.Frontend},
		{role: faults.Supervisor, point: "supervisor.dead_stored", needs: faults.Frontend},
		{role: faults.Supervisor, point: "supervisor.started", needs: faults.DeviceOwner},
	},
)

func spotsOf(role string, points ...string) (list []spot) {
	for _, p := range points {
		list = append(list, spot{role: role, point: p})
	}
	return list
}

// trial is one case of the matrix.
type trial struct {
	spot
	deed     deed
	occasion occasion
}

func (c trial) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", c.occasion, c.role, c.point, c.deed)
}

// trials lists the whole matrix, and those of it that are tried by default: every point once with SIGKILL under a load that
// reaches it, and some more that the seed chooses.
func trials(rng *rand.Rand, more int) (list []trial) {
	var rest []trial
	full := os.Getenv("RANKD_E2E_MATRIX") == "full"
	for _, o := range []occasion{steady, idle, alone, crowded, draining} {
		for _, s := range spots {
			if len(s.only) > 0 && !slices.Contains(s.only, o) {
				continue
			}
			for _, d := range []deed{kill, stopKill, stopCont} {
				c := trial{s, d, o}
				usual := d == kill && s.role != faults.Supervisor && (o == steady || len(s.only) > 0 && o == crowded)
				if full || usual {
					list = append(list, c)
				} else {
					rest = append(rest, c)
				}
			}
		}
	}
	rng.Shuffle(len(rest), func(i, k int) { rest[i], rest[k] = rest[k], rest[i] })
	return append(list, rest[:min(more, len(rest))]...)
}

func TestCrashMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute; run without -short")
	}
	seed := seedOf(t)
	all := trials(random(seed, "trials"), 12)
	for _, o := range []occasion{steady, idle, alone, crowded} {
		mine := slices.DeleteFunc(slices.Clone(all), func(c trial) bool { return c.occasion != o })
		if len(mine) == 0 {
			continue
		}
		t.Run(string(o), func(t *testing.T) {
			m := newMatrix(t, seed, o)
			for _, c := range mine {
				// Not a subtest: the next one could not trust the server after a failure.
				if m.try(c); t.Failed() {
					t.Fatalf("failed at %v", c)
				}
			}
		})
	}
	for _, c := range all {
		if c.occasion == draining {
			t.Run(c.String(), func(t *testing.T) { newMatrix(t, seed, draining).tryDraining(c) })
		}
	}
}

// matrix is a server on which trials are made one after the other. After each it must be as it was at the start.
type matrix struct {
	*aimed
	exam  *exam
	start traces
	rng   *rand.Rand
	seed  uint64
	at    occasion
}

func newMatrix(t *testing.T, seed uint64, at occasion) *matrix {
	b := testModel(t)
	flags := []string{"--executor=sim", "--sim-verify=full", "--frontends=2"}
	switch at {
	case alone:
		flags = append(flags, "--batching=off")
	case crowded: // 96 rows have room, and 4000 a second are scored
		flags = append(flags, "--buckets=1,4,16", "--sim-call=4ms")
	case draining: // the last calls take about two seconds
		flags = append(flags, "--buckets=1,4,16", "--sim-call=60ms")
	}
	m := &matrix{
		aimed: serveAimed(t, options{model: b.Dir, flags: flags}), exam: newExam(t, b, seed, 4096, simulated(t, b.Manifest)),
		rng: random(seed, "matrix "+string(at)), seed: seed, at: at,
	}
	var err error
	if m.start, err = m.traces(); err != nil {
		t.Fatal(err)
	}
	return m
}

// load is the load of the occasion, over fresh lanes.
func (m *matrix) load() *load {
	each := 2
	if m.at == idle {
		each = 1
	}
	l := &load{exam: m.exam, seed: m.rng.Uint64(), rows: smallRows, deadline: patience, lanes: flat(m.lanes(2, each))}
	switch m.at {
	case idle:
		l.callers = 2
		l.rows = func(rng *rand.Rand) int {
			<-time.After(time.Duration(rng.IntN(int(20 * time.Millisecond))))
			return 1
		}
	case steady, alone:
		l.callers = 8
	case crowded:
		l.callers = 32
	case draining:
		l.callers, l.deadline = 32, 4*patience // what waits takes a while
	}
	return l
}

// target is the process that a trial hits, and other the one that the test kills to bring it to the point.
func (m *matrix) target(c trial) (victim supervisor.Child, others []supervisor.Child) {
	switch c.role {
	case faults.Supervisor:
		victim = m.self()
	case faults.DeviceOwner:
		victim = m.owner()
	default:
		victim = m.child("frontend", 0)
	}
	switch c.needs {
	case faults.Frontend:
		others = append(others, m.child("frontend", 1))
	case faults.DeviceOwner:
		others = append(others, m.owner())
	}
	return victim, others
}

// hit brings the victim to the point and does the deed. It returns the processes that have ended.
func (m *matrix) hit(c trial) (ended []supervisor.Child) {
	m.t.Helper()
	victim, ended := m.target(c)
	verb := "stop"
	if c.deed == kill {
		verb = "kill"
	}
	visit := 1
	if c.needs == "" && m.at != idle && m.at != draining {
		visit += m.rng.IntN(30)
	}
	m.aim(victim, fmt.Sprintf("%s=%s@%d", c.point, verb, visit))
	for _, other := range ended {
		send(m.t, other, unix.SIGKILL)
	}
	m.until(limit, fmt.Sprintf("%s %d to come to %s", c.role, victim.Index, c.point),
		func() bool { return !alive(victim) || halted(victim) }, func() string { return "" })
	if c.deed == kill {
		if alive(victim) {
			m.t.Errorf("%v: the process is stopped, want it killed", c)
		}
		return append(ended, victim)
	}
	<-time.After(moment)
	if c.deed == stopCont {
		send(m.t, victim, unix.SIGCONT)
		return ended
	}
	send(m.t, victim, unix.SIGKILL)
	return append(ended, victim)
}

// try makes a trial and wants everything back.
func (m *matrix) try(c trial) {
	m.t.Helper()
	began := time.Now()
	before := m.scrape()
	l := m.load()
	r := round{lanes: map[*lane]bool{}}
	homes := map[*lane]int{}
	for _, lane := range l.lanes {
		homes[lane] = m.frontendOf(lane)
	}
	l.start()
	defer l.stop()
	if c.occasion == crowded {
		m.awaitFull()
	}
	r.began = time.Now()
	ended := m.hit(c)
	supervisorDied := slices.ContainsFunc(ended, func(p supervisor.Child) bool { return p.Role == "supervisor" })
	if supervisorDied {
		m.revive()
		before = nil // the counters begin anew
	}
	m.awaitWhole(ended...)
	for _, lane := range l.lanes {
		lane.connect(m.t)
		r.lanes[lane] = supervisorDied || slices.ContainsFunc(ended, func(p supervisor.Child) bool { return p.Role == "frontend" && p.Index == homes[lane] })
	}
	r.ended = time.Now()
	l.progress(m.server, 20) // (a)
	m.wantSound()            // (b)
	l.stop()
	l.wantRight(m.t) // (d)
	l.wantNoFailure(m.t, r.excuses)
	m.wantCounted(before, l) // (c)
	m.wantAtRest()
	for _, lane := range l.lanes {
		lane.conn.Close()
	}
	m.wantTraces(m.start) // (e), (f)
	m.t.Logf("%v: %v", c, time.Since(began).Round(time.Millisecond))
}

// revive waits for the end of all processes after the supervisor's and starts the server again.
func (m *matrix) revive() {
	m.t.Helper()
	m.awaitEnd(limit)
	m.until(5*time.Second, "the children of a killed supervisor to end", func() bool { return len(processesOf(m.instance)) == 0 },
		func() string { return strings.Join(processesOf(m.instance), ", ") })
	m.server.start()
	m.awaitReady()
}

// wantCounted compares what the server says that it has answered with what clients got: as much as they got, and what was on
// its way to those whose frontend died, and nothing that is still open (c).
func (m *matrix) wantCounted(before scrape, l *load) {
	m.t.Helper()
	scored, failed := l.scored.Load(), int64(len(l.failures))
	var after scrape
	m.until(limit, "no open call and no pending row", func() bool {
		after = m.scrape()
		return after["rankd_in_flight_calls"] == 0 && after.sum("rankd_frontend_pending_rows") == 0 && after["rankd_launches_in_flight"] == 0
	}, func() string {
		return fmt.Sprintf("%v open calls, %v pending rows", after["rankd_in_flight_calls"], after.sum("rankd_frontend_pending_rows"))
	})
	if before == nil {
		return
	}
	if ok := int64(after.ok() - before.ok()); ok < scored || ok > scored+failed {
		m.t.Errorf("the server has counted %d answered calls, want %d as at the clients, or up to %d more that failed there", ok, scored, failed)
	}
}

// tryDraining makes a trial on a server that was told to stop.
func (m *matrix) tryDraining(c trial) {
	m.t.Helper()
	l := m.load()
	homes := map[*lane]int{}
	for _, lane := range l.lanes {
		homes[lane] = m.frontendOf(lane)
	}
	l.start()
	defer l.stop()
	m.awaitFull()
	m.wantSound()
	asked := time.Now()
	ring := m.ring()
	defer ring.Close()
	if err := m.cmd.Process.Signal(unix.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	m.until(limit, "the drain", func() bool { return ring.View().Draining }, func() string { return "" })
	ended := m.hit(c)
	supervisorDied := slices.ContainsFunc(ended, func(p supervisor.Child) bool { return p.Role == "supervisor" })
	m.awaitEnd(stopLimit)
	if code := m.cmd.ProcessState.ExitCode(); code != 0 && !supervisorDied {
		m.t.Errorf("got %v, want exit code 0", m.cmd.ProcessState)
	}
	m.until(5*time.Second, "the processes of the server to end", func() bool { return len(processesOf(m.instance)) == 0 },
		func() string { return strings.Join(processesOf(m.instance), ", ") })
	if supervisorDied { // what it left is the next one's to remove
		m.server.start()
		m.awaitReady()
		m.stop()
	}
	m.wantGone()
	l.stop()
	if n := l.wrong.Load(); n > 0 {
		m.t.Errorf("got %d replies with wrong scores, want none: %q", n, l.samples)
	}
	// Calls that were under way at a frontend that lived on are answered.
	l.wantNoFailure(m.t, func(f failure) bool {
		lost := supervisorDied || slices.ContainsFunc(ended, func(p supervisor.Child) bool { return p.Role == "frontend" && p.Index == homes[f.lane] })
		return unavailable(f) && (lost || f.began.After(asked.Add(-moment)))
	})
}
