package top

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"rankd/internal/testutil"
	"rankd/supervisor"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// fake serves a status; down lets it answer with errors.
func fake(t *testing.T) (address string, down *atomic.Bool) {
	t.Helper()
	down = &atomic.Bool{}
	began := time.Now().Add(-time.Hour)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		if r.URL.Query().Get("format") == "history" {
			_ = json.NewEncoder(w).Encode([]supervisor.Sample{{At: began, Rows: 10}, {At: began.Add(time.Second), Rows: 4321}})
			return
		}
		_ = json.NewEncoder(w).Encode(&supervisor.Status{
			Ready: true, Phase: "serving", StartedAt: began, Model: supervisor.Model{Name: "test", Version: "7"}, Executor: strings.Repeat("wide ", 60),
			Processes: []supervisor.ProcessStatus{{Role: "deviceowner", PID: 3, State: "ready"}, {Role: "frontend", PID: 4, State: "ready"}},
			Events:    []supervisor.Event{{At: began, Level: "ERROR", Text: "something broke", Times: 2}},
		})
	}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return strings.TrimPrefix(server.URL, "http://"), down
}

// terminal collects what is shown.
type terminal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (x *terminal) has(words string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Contains(ansi.Strip(x.text.String()), words)
}

func TestTopInATerminal(t *testing.T) {
	address, down := fake(t)
	mine, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if err := pty.Setsize(mine, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
		t.Fatal(err)
	}
	shown := &terminal{}
	reader := make(chan struct{})
	go func() {
		defer close(reader)
		buf := make([]byte, 4096)
		for {
			n, err := mine.Read(buf)
			if err != nil {
				return
			}
			shown.mu.Lock()
			shown.text.Write(buf[:n])
			shown.mu.Unlock()
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), address, 100*time.Millisecond, theirs, theirs) }()
	for _, want := range []string{"rankd test version 7: ready", "4321/s", "frontend 0", "something broke (2 times)", "q: quit"} {
		testutil.Eventually(t, 20*time.Second, want, func() bool { return shown.has(want) })
	}
	down.Store(true)
	testutil.Eventually(t, 20*time.Second, "I1: the server to be shown as silent", func() bool { return shown.has("no answer since") })
	if _, err := mine.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("q does not end it")
	}
	theirs.Close()
	mine.Close()
	<-reader
}

func TestI2NothingIsWiderOrHigherThanTheTerminal(t *testing.T) {
	address, _ := fake(t)
	r, err := Read(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}, {300, 100}} {
		s := screen{address: address, last: r, width: size[0], height: size[1]}
		lines := strings.Split(s.View(), "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: got %d lines", size, len(lines))
		}
		for _, l := range lines {
			if w := ansi.StringWidth(l); w > size[0] {
				t.Errorf("%v: got a line of %d columns: %q", size, w, l)
			}
		}
	}
}

func TestServerThatIsNotThereIsAnError(t *testing.T) {
	address, down := fake(t)
	down.Store(true)
	if err := Run(t.Context(), address, time.Second, os.Stdin, os.Stdout); err == nil || !strings.Contains(err.Error(), "is it the --http address") {
		t.Errorf("got %v", err)
	}
	if _, err := Read(t.Context(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "nothing listens there: start a server") {
		t.Errorf("got %v", err)
	}
}
