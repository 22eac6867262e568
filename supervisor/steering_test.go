package supervisor

import (
	"bufio"
	"strings"
	"testing"

	"rankd/internal/stats"
	"rankd/internal/steer"

	"golang.org/x/sys/unix"
)

// takenBy opens a connection and says which incarnation of which frontend has taken it.
func takenBy(t *testing.T, address string) string {
	t.Helper()
	conn := dial(t, address)
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("read who took a connection: %v", err)
	}
	return strings.TrimSpace(line)
}

func TestI9NewConnectionsAvoidADeadFrontend(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	st := s.awaitReady()
	if st.Steering.Policy != steer.LeastConnections {
		t.Skipf("needs connections to be steered: %+v", st.Steering)
	}
	t.Logf("steering: %+v", st.Steering)
	s.ring.with(func() { s.ring.held[0] = true })
	kill(t, st.Processes[1].PID, unix.SIGKILL)
	s.await("the death to be seen", func(st Status) bool { return st.Processes[1].Restarts == 1 })
	for range 12 {
		if got := takenBy(t, st.Listen); got != "frontend 1/1" {
			t.Errorf("got a connection taken by %s, want frontend 1/1, which lives", got)
		}
	}
	s.ring.with(func() { s.ring.held[0] = false })
	s.awaitReady()
	by := map[string]bool{}
	for range 12 {
		by[takenBy(t, st.Listen)] = true
	}
	if !by["frontend 0/2"] {
		t.Errorf("got connections taken by %v, want the successor among them", by)
	}
}

func TestSteeringIsShownWithTheConnectionsOfEachFrontend(t *testing.T) {
	for _, policy := range []string{"auto", "none"} {
		s := testServer(t, nil)
		s.cfg.Steering = policy
		s.start()
		s.awaitReady()
		page := openPage(t, s)
		page.Frontend(1).Add(stats.Connections, 7)
		page.Frontend(1).Move(stats.OpenConnections, 3)
		st := s.await("the counters to be seen", func(st Status) bool { return st.Processes[2].Accepted == 7 })
		if got := st.Processes[2]; got.Connections != 3 || st.Processes[1].Connections != 0 {
			t.Errorf("got %+v, want three open connections at frontend 1 alone", st.Processes)
		}
		if none := st.Steering.Policy == steer.None; none != (policy == "none") && !st.Steering.Fallback || st.Steering.Why == "" {
			t.Errorf("--steering %s: got %+v", policy, st.Steering)
		}
		_, html := s.get("/statusz?format=html")
		if want := "New connections: " + string(st.Steering.Policy) + ", by " + string(st.Steering.Mechanism); !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
		_, metrics := s.get("/metrics")
		for _, want := range []string{`rankd_frontend_connections{frontend="1"} 3`, `rankd_frontend_connections_total{frontend="1"} 7`} {
			if !strings.Contains(metrics, want) {
				t.Errorf("the metrics lack %q", want)
			}
		}
		if !strings.Contains(s.log.String(), `"msg":"connections are steered","policy":"`+string(st.Steering.Policy)+`"`) {
			t.Error("the log does not say how connections are steered")
		}
	}
}
