package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/steer"
)

// spread is how many connections each frontend has, once there are so many in all.
func (s *server) spread(connections int) []int {
	s.t.Helper()
	var counts []int
	s.until(limit, fmt.Sprintf("%d connections", connections), func() bool {
		counts = nil
		all, m := 0, s.scrape()
		for i := range s.frontends() {
			n := int(m[fmt.Sprintf(`rankd_frontend_connections{frontend="%d"}`, i)])
			counts = append(counts, n)
			all += n
		}
		return all == connections
	}, func() string { return fmt.Sprint(counts) })
	return counts
}

// skew is the most connections of a frontend, against the mean; gap is by how many the frontends differ.
func skew(counts []int) float64 {
	all := 0
	for _, n := range counts {
		all += n
	}
	return float64(slices.Max(counts)) * float64(len(counts)) / float64(all)
}

func gap(counts []int) int { return slices.Max(counts) - slices.Min(counts) }

// unprivileged is a command that takes away what eBPF needs.
func unprivileged(t testing.TB) []string {
	t.Helper()
	path, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("takes capabilities away: run as root where setpriv (util-linux) is installed")
	}
	return []string{path, "--bounding-set=-bpf,-sys_admin"}
}

// Few connections that stay open are spread evenly over many frontends, and how evenly stands in the metrics.
func TestFewConnectionsAreSpreadOverManyFrontends(t *testing.T) {
	b := testModel(t)
	for _, c := range []struct {
		name, steering string
		mechanism      steer.Mechanism
		without        bool // privilege
		most           int  // by which frontends may differ
		settle         time.Duration
	}{
		{"not steered", "none", steer.ByHash, false, 100, 0},
		{"round robin", "round-robin", steer.ByEBPF, false, 1, 0},
		{"least connections", "auto", steer.ByEBPF, false, 1, 0},
		// The program is replaced after each connection, which on a busy machine takes its time, and may be one behind.
		{"least connections without privilege", "auto", steer.ByClassic, true, 2, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=4", "--steering=auto"}}
			if c.without {
				o.wrap = unprivileged(t)
			}
			s := serve(t, o)
			if got := s.status().Steering; c.steering != "none" && got.Mechanism != c.mechanism {
				t.Skipf("needs %s: this system gives %s to --steering auto: %s", c.mechanism, got.Mechanism, got.Why)
			}
			if c.steering != "auto" {
				s.stop()
				s.o.flags[3] = "--steering=" + c.steering
				s.start()
				s.awaitReady()
				s.awaitWhole()
			}
			if got := s.status().Steering; got.Mechanism != c.mechanism {
				t.Errorf("got %+v, want %s", got, c.mechanism)
			}
			open := 0
			for _, connections := range []int{4, 8, 10, 32} {
				for ; open < connections; open++ {
					s.frontendOf(s.dial())
					s.spread(open + 1)   // the next one comes after this one is counted
					time.Sleep(c.settle) // sleep: nothing outside the kernel shows that a program was replaced
				}
				counts := s.spread(connections)
				t.Logf("%d connections: %v, max/mean %.2f", connections, counts, skew(counts))
				if gap(counts) > c.most {
					t.Errorf("%d connections: got %v, want them to differ by at most %d", connections, counts, c.most)
				}
			}
			m := s.scrape()
			if got := m.sum("rankd_frontend_connections_total"); got < 32 || got != m["rankd_connections_total"] {
				t.Errorf("got %v connections accepted over the frontends, want at least 32 and as many as in all, %v", got, m["rankd_connections_total"])
			}
		})
	}
}

// A frontend that has lost its connections gets the next ones.
func TestSuccessorOfAKilledFrontendIsGivenConnectionsFirst(t *testing.T) {
	b := testModel(t)
	s := serve(t, options{model: b.Dir, flags: []string{"--executor=sim", "--sim-verify=full", "--frontends=4"}})
	if got := s.status().Steering; got.Mechanism != steer.ByEBPF {
		t.Skipf("needs eBPF, which is not permitted here: %s", got.Why)
	}
	lanes := map[*lane]int{}
	for range 8 {
		l := s.dial()
		lanes[l] = s.frontendOf(l)
	}
	victim := s.child("frontend", 2)
	send(t, victim, unix.SIGKILL)
	for l, at := range lanes {
		if at == victim.Index {
			l.conn.Close() // or it would come back by itself, to one of the others
		}
	}
	s.awaitWhole(victim)
	t.Logf("after the death: %v", s.spread(6))
	for range 2 {
		if at := s.frontendOf(s.dial()); at != victim.Index {
			t.Errorf("got a connection at frontend %d, want it at the successor, which has none", at)
		}
	}
	if counts := s.spread(8); gap(counts) > 0 {
		t.Errorf("got %v, want two each", counts)
	}
}

// All that a server with one connection does, it does in one frontend; there, a large request is looked up by all gather
// workers at once. They are stopped one by one in the middle of a chunk: were it one after the other, only one would stop.
func TestOneConnectionsRequestIsGatheredByAllWorkersAtOnce(t *testing.T) {
	const workers = 4
	seed, b := seedOf(t), testModel(t)
	s := serveAimed(t, options{model: b.Dir, flags: []string{
		"--executor=sim", "--sim-verify=full", "--frontends=2", "--frontend-threads=4", "--gather-workers=" + strconv.Itoa(workers),
		"--inline-chunks=1", "--chunk-rows=16", "--straggler-timeout=1m",
	}})
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	l := s.dial()
	at := s.child("frontend", s.frontendOf(l))
	// The first chunk is the connection's own. Each item counts visits by itself and an item that stops a goroutine keeps
	// the visit from those behind it, so the last visit stands first.
	var spec []string
	for visit := workers + 1; visit > 1; visit-- {
		spec = append(spec, fmt.Sprintf("frontend.half_written=freeze@%d", visit))
	}
	s.aim(at, strings.Join(spec, ","))
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := e.ask(ctx, l, e.pick(random(seed, "one"), 200), perTable, 0)
		ended <- err
	}()
	ring := s.ring()
	defer ring.Close()
	busy := []int{}
	s.until(limit, "all gather workers to be in the middle of a chunk", func() bool {
		busy = nil
		for _, f := range ring.View().Frontends {
			busy = append(busy, f.OddWriters) // between reservation and commit
		}
		return busy[at.Index] == workers
	}, func() string { return fmt.Sprintf("busy writers of each frontend: %v", busy) })
	t.Logf("one request on one connection: busy writers of each frontend: %v", busy)
	send(t, at, unix.SIGKILL)
	if err := <-ended; err == nil {
		t.Error("got a reply of a frontend that was killed, want an error")
	}
	s.awaitWhole(at)
}
