package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/testutil"
	"rankd/shmring"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// The parent-death signal belongs to the main thread; a fake that clears it must run there.
func init() {
	if len(os.Args) > 1 && (os.Args[1] == roleFrontend || os.Args[1] == roleOwner) {
		runtime.LockOSThread()
	}
}

// The test binary is also its own children: it executes itself as frontend, deviceowner, or a whole supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleFrontend, roleOwner:
			os.Exit(fakeChild(os.Args[1], os.Args[2:]))
		case "supervise":
			os.Exit(fakeSupervisor(os.Args[2:]))
		}
	}
	testutil.Main(m)
}

// earlyWords is what a child says that dies early, as the supervisor passes it on.
const earlyWords = "open device: no such device; check --plugin: got nothing"

const (
	testLayout   = 7
	behaviourEnv = "RANKD_TEST_BEHAVIOUR"     // words, see fakeChild
	journalEnv   = "RANKD_TEST_JOURNAL"       // file to which children append what they do
	quickExit    = "GORACE=atexit_sleep_ms=0" // a program built with the race detector otherwise takes a second to exit
	limit        = 20 * time.Second           // of any wait in these tests; generous, since the machine may be busy
)

// fakeChild keeps to the contract of a child, but for what its behaviour says:
//
//	early:N   exits with code 1 before READY in the first N incarnations
//	code:C    exits with code C before READY
//	second:C  exits with code C before READY, but not in its first incarnation
//	later:C   exits with code C when SIGUSR1 comes
//	mute      never becomes ready
//	stubborn  does not react to SIGTERM
//	immortal  does not die with its supervisor
//	litter    leaves a process behind that holds its output open
//	noisy     writes a log record and a line of text
func fakeChild(role string, args []string) int {
	in := child.NoDescriptors()
	fs := pflag.NewFlagSet(role, pflag.ContinueOnError)
	config.Bind(fs, &in)
	if err := fs.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return int(config.ExitBadConfig)
	}
	does := map[string]int{}
	for _, word := range strings.Fields(os.Getenv(behaviourEnv)) {
		name, number, _ := strings.Cut(word, ":")
		n := 0
		_, _ = fmt.Sscan(number, &n)
		does[name] = n
	}
	has := func(name string) bool { _, ok := does[name]; return ok }
	me := fmt.Sprintf("%s %d/%d", role, in.Index, in.Incarnation)
	terms, users := make(chan os.Signal, 4), make(chan os.Signal, 4)
	notifySignals(terms, users)
	if has("noisy") {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).Warn("hello from child", "number", 12345678901234)
		fmt.Fprintln(os.Stderr, "goroutine 1 [running]:")
		journal(me + " NOTIFY_SOCKET=" + os.Getenv("NOTIFY_SOCKET"))
	}
	if has("litter") {
		left := exec.Command("sleep", "60")
		left.Stderr = os.Stderr
		if err := left.Start(); err != nil {
			return int(config.ExitError)
		}
		journal(fmt.Sprint("litter ", left.Process.Pid))
	}
	switch {
	case has("immortal"):
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
		in.LifeFD = -1
	case has("early") && int(in.Incarnation) <= does["early"]:
		fmt.Fprintln(os.Stderr, "rankd: "+strings.ReplaceAll(earlyWords, "; ", "\n"))
		return int(config.ExitError)
	case has("second") && in.Incarnation > 1:
		return does["second"]
	case has("code"):
		return does["code"]
	}
	if role == roleFrontend {
		go answer(in.ListenerFD, me)
	}
	if !has("mute") {
		journal(me + " ready")
		if err := child.Announce(in.ReadyFD, child.Ready{Layout: testLayout, Incarnation: in.Incarnation}); err != nil {
			return int(config.ExitError)
		}
	}
	gone := child.WatchLife(in.LifeFD)
	for {
		select {
		case <-gone:
			return int(config.ExitOK)
		case <-users:
			return does["later"]
		case <-terms:
			journal(me + " asked")
			if !has("stubborn") {
				journal(me + " exits")
				return int(config.ExitOK)
			}
		}
	}
}

func notifySignals(terms, users chan os.Signal) {
	signal.Notify(terms, syscall.SIGTERM)
	signal.Notify(users, syscall.SIGUSR1)
}

// answer tells every connection who took it.
func answer(fd int, me string) {
	listener, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(int(config.ExitError))
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, me)
		conn.Close()
	}
}

func journal(line string) {
	f, err := os.OpenFile(os.Getenv(journalEnv), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

// fakeSupervisor is a whole server of fakes in a process of its own, so that it can be killed.
func fakeSupervisor(args []string) int {
	cfg := Default()
	fs := pflag.NewFlagSet("supervise", pflag.ContinueOnError)
	config.Bind(fs, &cfg)
	if err := fs.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	deps := fakeDeps(slog.New(slog.NewJSONHandler(os.Stderr, nil)), newFakeRing())
	if err := Run(context.Background(), cfg, deps); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// fakeRing records what the supervisor tells the ring.
type fakeRing struct {
	mu        sync.Mutex
	dead      map[int]uint32
	held      map[int]bool // not recovered
	ownerDead uint32
	states    []shmring.OwnerState
	draining  bool
	rung      int
	beat      uint64
	frozen    bool // the heartbeat
	oldest    time.Duration
	kill      map[int]uint32
}

func newFakeRing() *fakeRing {
	return &fakeRing{dead: map[int]uint32{}, held: map[int]bool{}, kill: map[int]uint32{}}
}

func (r *fakeRing) with(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func (r *fakeRing) MarkDead(i int, inc uint32) { r.with(func() { r.dead[i] = inc }) }
func (r *fakeRing) Recovered(i int) (ok bool)  { r.with(func() { ok = !r.held[i] }); return }

func (r *fakeRing) MarkOwnerDead(inc uint32) { r.with(func() { r.ownerDead, r.oldest = inc, 0 }) }

func (r *fakeRing) SetOwnerState(s shmring.OwnerState) {
	r.with(func() { r.states = append(r.states, s) })
}
func (r *fakeRing) SetDraining()                    { r.with(func() { r.draining = true }) }
func (r *fakeRing) RingAll()                        { r.with(func() { r.rung++ }) }
func (r *fakeRing) OldestLaunch() (d time.Duration) { r.with(func() { d = r.oldest }); return }
func (r *fakeRing) KillRequest(i int) (n uint32, b bool) {
	r.with(func() { n, b = r.kill[i], r.kill[i] != 0 })
	return
}

func (r *fakeRing) OwnerHeartbeat() (n uint64) {
	r.with(func() {
		if !r.frozen {
			r.beat++
		}
		n = r.beat
	})
	return
}

func (r *fakeRing) seen(state shmring.OwnerState) (n int) {
	r.with(func() {
		for _, s := range r.states {
			if s == state {
				n++
			}
		}
	})
	return
}

func memfd(name string) (int, error) { return unix.MemfdCreate("test-"+name, unix.MFD_CLOEXEC) }

func fakeDeps(log *slog.Logger, ring Ring) Deps {
	args := func(in child.Inherited) []string { return config.ToArgs(in) }
	return Deps{
		Log: log, Layout: testLayout, Model: Model{Name: "t4", Version: "1"}, Executor: "simulated accelerator",
		LoadTables: func(context.Context, string, func(done, total int64)) (*Tables, error) {
			fd, err := memfd("tables")
			return &Tables{FD: fd, Memory: Memory{Bytes: 1 << 20, Pages: "4k"}, Close: func() error { return unix.Close(fd) }}, err
		},
		NewRegion: func(context.Context, []int) (*Region, error) {
			fd, err := memfd("region")
			return &Region{FD: fd, Memory: Memory{Bytes: 2 << 20, Pages: "4k"}, Ring: ring, Close: func() error { return unix.Close(fd) }}, err
		},
		Owner:    Role{Command: roleOwner, Args: args},
		Frontend: Role{Command: roleFrontend, Args: args},
	}
}

// logBuffer is a log that tests can read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server of fakes inside the test process.
type runningServer struct {
	t       *testing.T
	cfg     Config
	deps    Deps
	ring    *fakeRing
	signals chan os.Signal
	log     *logBuffer
	journal string
	result  chan error
}

// testServer makes a server that is not yet started. behaviour is that of "<role>" children.
func testServer(t *testing.T, behaviour map[string]string) *runningServer {
	t.Helper()
	s := &runningServer{
		t: t, cfg: Default(), ring: newFakeRing(), signals: make(chan os.Signal, 4), log: &logBuffer{},
		journal: filepath.Join(t.TempDir(), "journal"), result: make(chan error, 1),
	}
	s.cfg.Listen, s.cfg.HTTP, s.cfg.Instance = "127.0.0.1:0", "127.0.0.1:0", testutil.Instance(t)
	s.cfg.RunDir, s.cfg.Frontends = t.TempDir(), 2
	s.cfg.BackoffFirst, s.cfg.BackoffLimit = 10*time.Millisecond, 50*time.Millisecond
	s.deps = fakeDeps(slog.New(slog.NewJSONHandler(s.log, nil)), s.ring)
	s.deps.Signals, s.deps.ShmDirs = s.signals, []string{t.TempDir()}
	s.deps.Owner.Env = []string{quickExit, behaviourEnv + "=" + behaviour[roleOwner], journalEnv + "=" + s.journal}
	s.deps.Frontend.Env = []string{quickExit, behaviourEnv + "=" + behaviour[roleFrontend], journalEnv + "=" + s.journal}
	return s
}

func (s *runningServer) start() {
	s.t.Helper()
	go func() { s.result <- Run(context.Background(), s.cfg, s.deps) }()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("log:\n%s", s.log)
		}
		if s.result != nil {
			s.signals <- syscall.SIGTERM
			s.signals <- os.Interrupt
			s.end()
		}
	})
}

// end waits for the result of Run.
func (s *runningServer) end() error {
	s.t.Helper()
	select {
	case err := <-s.result:
		s.result = nil
		return err
	case <-time.After(limit):
		s.t.Fatalf("wait for the server to end: still running after %v\n%s", limit, s.log)
		return nil
	}
}

func (s *runningServer) state() *State {
	st, err := ReadState(s.cfg.RunDir, s.cfg.Instance)
	if err != nil {
		return &State{}
	}
	return st
}

// get fetches a page of the server's HTTP address.
func (s *runningServer) get(path string) (code int, body string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.state().HTTP + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func (s *runningServer) status() (st Status) {
	_, body := s.get("/statusz?format=json")
	_ = json.Unmarshal([]byte(body), &st)
	return st
}

func (s *runningServer) await(what string, done func(Status) bool) Status {
	s.t.Helper()
	var st Status
	testutil.Eventually(s.t, limit, what, func() bool {
		st = s.status()
		return len(st.Processes) > 0 && done(st)
	})
	return st
}

func (s *runningServer) awaitReady() Status {
	s.t.Helper()
	return s.await("readiness", func(st Status) bool {
		for _, p := range st.Processes {
			if p.State != "ready" {
				return false
			}
		}
		return st.Ready
	})
}

// stop asks the server to stop and returns the result of Run.
func (s *runningServer) stop() error {
	s.t.Helper()
	s.signals <- syscall.SIGTERM
	return s.end()
}

func (s *runningServer) journalLines() []string {
	text, _ := os.ReadFile(s.journal)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// supervisorProcess starts a whole supervisor as a child of the test.
func supervisorProcess(t *testing.T, cfg Config, env ...string) (*exec.Cmd, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	cmd := exec.Command("/proc/self/exe", append([]string{"supervise"}, config.ToArgs(cfg)...)...)
	cmd.Env = append(append(os.Environ(), quickExit), env...)
	cmd.Stderr = log
	cmd.WaitDelay = limit // children that outlive it hold its log open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of supervisor %d:\n%s", cmd.Process.Pid, log)
		}
	})
	return cmd, log
}
