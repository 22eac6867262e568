package supervisor

import (
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rankd/internal/stats"
	"rankd/internal/testutil"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestLogsOfChildrenCarryRolePidAndEpoch(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	s := testServer(t, map[string]string{roleOwner: "noisy"})
	s.start()
	st := s.awaitReady()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var record, text map[string]any
	for _, line := range strings.Split(s.log.String(), "\n") {
		switch {
		case strings.Contains(line, "hello from child"):
			_ = json.Unmarshal([]byte(line), &record)
		case strings.Contains(line, "goroutine 1"):
			_ = json.Unmarshal([]byte(line), &text)
		}
	}
	pid := float64(st.Processes[0].PID)
	if record["msg"] != "hello from child" || record["level"] != "WARN" || record["role"] != "deviceowner" || record["pid"] != pid || record["epoch"] != 1.0 {
		t.Errorf("got record %v, want the child's with role, pid and epoch", record)
	}
	if !strings.Contains(s.log.String(), `"number":12345678901234,`) && !strings.Contains(s.log.String(), `"number":12345678901234}`) {
		t.Error("a number lost its digits on the way")
	}
	if text["text"] != "goroutine 1 [running]:" || text["level"] != "ERROR" || text["pid"] != pid {
		t.Errorf("got record %v, want the line of text", text)
	}
}

func TestServiceManagerHearsReadinessAndChildrenDoNot(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "300000")
	t.Setenv("WATCHDOG_PID", "")
	s := testServer(t, map[string]string{roleOwner: "noisy"})
	s.start()
	await := func(want string) string {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(limit))
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("wait for %s: %v", want, err)
			}
			if slices.ContainsFunc(strings.Split(string(buf[:n]), "\n"), func(line string) bool { return strings.HasPrefix(line, want) }) {
				return string(buf[:n])
			}
		}
	}
	await("EXTEND_TIMEOUT_USEC=120000000") // the tables are loaded, the owner is being started
	if got := await("READY=1"); !strings.Contains(got, "STATUS=serving ") || !strings.Contains(got, "frontends are ready") {
		t.Errorf("got %q, want a status that says what is served", got)
	}
	await("WATCHDOG=1")
	// A loop that stands still is no longer vouched for: after what is under way, silence.
	s.ring.with(func() { s.ring.frozen = true })
	quiet := func() bool {
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		_, err := conn.Read(make([]byte, 4096))
		return err != nil
	}
	testutil.Eventually(t, limit, "the watchdog to starve", quiet)
	s.ring.with(func() { s.ring.frozen = false })
	await("WATCHDOG=1")
	s.signals <- os.Interrupt
	if got := await("STOPPING=1"); !strings.Contains(got, "STATUS=draining") || !strings.Contains(got, "EXTEND_TIMEOUT_USEC=") {
		t.Errorf("got %q, want time for the whole drain", got)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if lines := s.journalLines(); !slices.Contains(lines, "deviceowner 0/1 NOTIFY_SOCKET=") {
		t.Errorf("got journal %q, want a child without NOTIFY_SOCKET", lines)
	}
}

func TestChildEnvironment(t *testing.T) {
	got := childEnv([]string{"A=1", "NOTIFY_SOCKET=x", "LISTEN_FDS=3", "WATCHDOG_PID=1", "B=2", "NOTIFY_SOCKETS=y"}, []string{"B=3", "C=4"})
	if want := []string{"A=1", "NOTIFY_SOCKETS=y", "B=3", "C=4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStatusPageShowsTheServerToPeople(t *testing.T) {
	s := testServer(t, nil)
	s.deps.Model.Name = "<b>bold</b>"
	s.start()
	st := s.awaitReady()
	code, page := s.get("/statusz?format=html")
	if code != 200 {
		t.Fatalf("got %d: %s", code, page)
	}
	for _, want := range []string{"&lt;b&gt;bold&lt;/b&gt;", "simulated accelerator", st.Listen, "frontend 1", "1.00 MiB", "prefers-color-scheme", `name="viewport"`, `lang="en"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, foreign := range []string{"http://", "https://", "src=", "@import", "url("} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %q, want nothing fetched from elsewhere", foreign)
		}
	}
	if code, text := s.get("/statusz?format=xml"); code != 400 || text != "unknown format \"xml\", want html, text, json or history\n" {
		t.Errorf("got %d %q for an unknown format, want 400 and the known ones", code, text)
	}
	if _, text := s.get("/statusz"); !strings.Contains(text, "rankd <b>bold</b> version") || !strings.Contains(text, "frontend 1") || !strings.Contains(text, "server is ready: listen") {
		t.Errorf("for those who don't ask for HTML: got\n%s", text)
	}
	testutil.Eventually(t, limit, "a sample", func() bool {
		_, text := s.get("/statusz?format=history")
		return strings.Contains(text, `"rows_per_second"`)
	})
	if _, part := s.get("/statusz?format=html&part=main"); strings.Contains(part, "<html") || !strings.Contains(part, "<polyline") && !strings.Contains(part, "<svg") {
		t.Errorf("the part that is renewed: got %.200s", part)
	}
	if got := s.state(); got.Phase != string(phaseServing) || !got.Alive() {
		t.Errorf("got state %+v, want that of a living server that serves", got)
	}
	if code, _ := s.get("/nothing"); code != 404 {
		t.Errorf("got %d for an unknown path, want 404", code)
	}
}

func TestMetricsAreWellFormedAndCountersSurviveDeaths(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	st := s.awaitReady()
	page := openPage(t, s)
	for range 500 {
		page.Frontend(0).Inc(stats.Requests(stats.APIRankd, stats.OutcomeOK))
		page.Frontend(1).Inc(stats.Requests(stats.APIRankd, stats.OutcomeOK))
	}
	page.Frontend(1).Set(stats.PendingRows, 99)
	const total = `rankd_requests_total{api="rankd",outcome="ok"} 1000`
	_, before := s.get("/metrics")
	kill(t, st.Processes[2].PID, 9)
	s.await("a second incarnation", func(st Status) bool { return st.Processes[2].Incarnation == 2 && st.Processes[2].State == "ready" })
	code, after := s.get("/metrics")
	if code != 200 || !strings.Contains(before, total) || !strings.Contains(after, total) {
		t.Errorf("got a total that changed, want %s before and after a death", total)
	}
	for _, want := range []string{`rankd_frontend_pending_rows{frontend="1"} 0`, "rankd_frontend_restarts_total 1", "rankd_ready 1", "rankd_processes_ready 3", "rankd_table_bytes 1.048576e+06"} {
		if !strings.Contains(after, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if a, b := strings.Count(before, "\n"), strings.Count(after, "\n"); a != b {
		t.Errorf("got %d lines after a death, %d before", b, a)
	}
	problems, err := promlint.New(strings.NewReader(after)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("got problems %v, %v, want none", problems, err)
	}
}

// openPage maps the server's counter page through the state file, as the inspector does, but to write.
func openPage(t *testing.T, s *runningServer) *stats.Page {
	t.Helper()
	page, err := stats.Attach(s.state().StatsFD)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := page.Close(); err != nil {
			t.Error(err)
		}
	})
	return page
}

func TestTrafficIsTheDifferenceOfReadings(t *testing.T) {
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer page.Close()
	l := &loop{server: &server{page: page, log: slog.New(slog.DiscardHandler)}}
	now := time.Unix(1000, 0)
	for second := range 20 {
		l.sample(now.Add(time.Duration(second) * time.Second))
		l.sample(now.Add(time.Duration(second)*time.Second + time.Millisecond)) // too early to count
		page.Frontend(3).Add(stats.Requests(stats.APIKServe, stats.OutcomeOK), 100)
		page.Frontend(3).Add(stats.Rows(stats.APIKServe), 1600)
		page.Owner().Add(stats.Batches, 4)
		page.Owner().Add(stats.BatchRows, 1600)
		page.Owner().Observe(stats.StageDevice, 1_000_000)
	}
	got := l.history.traffic()
	if got.Seconds != historyLong || got.Requests != 100 || got.Rows != 1600 || got.BatchRows != 400 || got.Outcomes["ok"] != 1900 {
		t.Errorf("got %+v, want 100 requests/s of 16 rows over %d s and 1900 in all", got, historyLong)
	}
	for _, st := range got.Stages {
		if st.Stage == "device" && (st.Count != historyLong || st.P99 < 1_000_000 || st.P99 > 1_250_000) {
			t.Errorf("got %+v, want ten of a millisecond", st)
		}
	}
}

func TestLastWordsAreTheCauseOfAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		output []string
		want   string
	}{
		"nothing":                         {nil, ""},
		"an error":                        {[]string{"some library: hm", "rankd: open device: none"}, "open device: none"},
		"a crash":                         {[]string{"panic: index out of range", "", "goroutine 1 [running]:", "main.main()"}, "panic: index out of range"},
		"a record":                        {[]string{`{"level":"INFO","msg":"device opened"}`, `{"level":"ERROR","msg":"region is corrupt","error":"bad magic"}`, `{"level":"INFO","msg":"bye"}`}, "region is corrupt: bad magic"},
		"a library that ends the program": {[]string{`{"level":"ERROR","msg":"retrying"}`, "terminate called without an active exception"}, "terminate called without an active exception"},
	} {
		t.Run(name, func(t *testing.T) {
			var words lastWords
			for _, line := range c.output {
				if line != "" {
					emit(slog.New(slog.DiscardHandler), &words, []byte(line))
				}
			}
			if got := words.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	var words lastWords
	words.hear(strings.Repeat("€", 1000))
	if got := words.String(); len(got) > maxCause+len("…") || !strings.HasSuffix(got, "€…") {
		t.Errorf("got %d bytes, want it cut to %d between characters", len(got), maxCause)
	}
}

func TestStatusTellsWhereProgramsCameFrom(t *testing.T) {
	s := testServer(t, nil)
	s.start()
	s.awaitReady()
	owner := openPage(t, s).Owner()
	for i, source := range []stats.Source{stats.SourceBundle, stats.SourceCache, stats.SourceCompiler} {
		owner.SetBucketRows(i, 4<<i)
		owner.SetSource(i, source)
	}
	want := []ProgramStatus{{4, "bundle"}, {8, "cache"}, {16, "compiler"}}
	s.await("three programs", func(st Status) bool { return slices.Equal(st.Programs, want) })
	if _, page := s.get("/statusz?format=html"); !strings.Contains(page, `Programs: 4 <span class="quiet">bundle</span>, 8 <span class="quiet">cache</span>`) {
		t.Error("the status page does not name the programs")
	}
	if _, text := s.get("/statusz?format=json"); !strings.Contains(text, `"source": "bundle"`) {
		t.Errorf("got %s, want the sources of programs", text)
	}
}
