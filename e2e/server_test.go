package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
	"rankd/supervisor"
)

const (
	startLimit = 60 * time.Second // a start, with compilation, on a busy machine
	stopLimit  = 40 * time.Second
	limit      = 15 * time.Second // anything else that is awaited
)

// options says what server is wanted.
type options struct {
	model  string   // directory of the bundle
	flags  []string // of serve, beyond those that every server here gets
	env    []string // beyond the environment of the test, which keeps its RANKD_ variables to itself
	tags   []string // build tags of the command
	shmDir string   // "": where the product puts its files
	wrap   []string // a command that executes the one that follows it, such as unshare; empty: none
}

// server is a server that was started, and stays one over the lives of its processes.
type server struct {
	t        testing.TB
	o        options
	instance string
	runDir   string
	listen   string // the address that it has, once known
	http     string
	log      string // path
	keep     bool   // its tables are to stay after a stop

	started int64 // where the log of the present supervisor begins
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the supervisor was waited for
	pid     int
}

// newServer names a server without starting it. At the end of the test it is stopped, if it runs, and must leave nothing.
func newServer(t testing.TB, o options) *server {
	t.Helper()
	s := &server{t: t, o: o, instance: testutil.Instance(t), runDir: t.TempDir(), listen: "127.0.0.1:0"}
	s.log = filepath.Join(s.runDir, "log")
	t.Cleanup(s.finish)
	return s
}

// serve starts a server and waits until it is ready.
func serve(t testing.TB, o options) *server {
	t.Helper()
	s := newServer(t, o)
	s.start()
	s.awaitReady()
	return s
}

// start starts the supervisor; it returns at once.
func (s *server) start() {
	s.t.Helper()
	binary := testutil.Binary(s.t, s.o.tags...)
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil {
		s.started = info.Size()
	}
	args := []string{
		"serve", "--model=" + s.o.model, "--instance=" + s.instance, "--run-dir=" + s.runDir,
		"--listen=" + s.listen, "--http=127.0.0.1:0", "--log-format=json",
	}
	if s.o.shmDir != "" {
		args = append(args, "--shm-dir="+s.o.shmDir)
	}
	args = slices.Concat(s.o.wrap, []string{binary}, args, s.o.flags)
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Env = append(environment(), s.o.env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	if err := onSpawner(s.cmd.Start); err != nil {
		s.t.Fatalf("start server: %v", err)
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited, s.pid = exited, cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // the state is looked at by who waits for exited
		close(exited)
	}()
}

// environment is that of the test without rankd's own variables: they would change the flags of the server.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RANKD_") {
			env = append(env, v)
		}
	}
	return env
}

func (s *server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// state reads the state file of the present supervisor; nil if it has not written one yet.
func (s *server) state() *supervisor.State {
	st, err := supervisor.ReadState(s.runDir, s.instance)
	if err != nil || st.PID != s.pid {
		return nil
	}
	return st
}

// awaitReady waits until the server says that it is ready, with all its children.
func (s *server) awaitReady() {
	s.t.Helper()
	why := "no state file"
	ready := func() bool {
		if !s.running() {
			s.t.Fatalf("start server: it ended with %v", s.cmd.ProcessState)
		}
		st := s.state()
		if st == nil || st.HTTP == "" {
			return false
		}
		s.listen, s.http = st.Listen, st.HTTP
		code, text, err := s.get("/readyz")
		why = fmt.Sprintf("%d %s %v", code, text, err)
		return err == nil && code == http.StatusOK
	}
	s.until(startLimit, "a ready server", ready, func() string { return why })
}

// awaitWhole waits until every frontend and the device owner are ready, none of them being a process in without.
func (s *server) awaitWhole(without ...supervisor.Child) {
	s.t.Helper()
	last := ""
	whole := func() bool {
		st := s.status()
		if st == nil || !st.Ready {
			return false
		}
		last = fmt.Sprintf("%+v", st.Processes)
		for _, p := range st.Processes {
			if p.State != "ready" {
				return false
			}
			for _, c := range without {
				if p.PID == c.PID {
					return false
				}
			}
		}
		return true
	}
	s.until(limit, "all processes to be ready", whole, func() string { return last })
}

// until polls like testutil.Eventually, and says more when it ends.
func (s *server) until(limit time.Duration, what string, done func() bool, detail func() string) {
	s.t.Helper()
	deadline := time.Now().Add(limit)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		if time.Now().After(deadline) {
			s.t.Fatalf("wait for %s: not so after %v: %s", what, limit, detail())
		}
		<-poll.C
	}
}

// page gets from the HTTP address without keeping a connection.
var page = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (s *server) get(path string) (code int, text string, err error) {
	r, err := page.Get("http://" + s.http + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, strings.TrimSpace(string(body)), err
}

// child finds a running child in the state file.
func (s *server) child(role string, index int) supervisor.Child {
	s.t.Helper()
	if st := s.state(); st != nil {
		for _, c := range st.Children {
			if c.Role == role && c.Index == index {
				return c
			}
		}
	}
	s.t.Fatalf("find %s %d: the state file has none", role, index)
	return supervisor.Child{}
}

func (s *server) owner() supervisor.Child { s.t.Helper(); return s.child("deviceowner", 0) }

func (s *server) frontends() []supervisor.Child {
	s.t.Helper()
	var list []supervisor.Child
	if st := s.state(); st != nil {
		for _, c := range st.Children {
			if c.Role == "frontend" {
				list = append(list, c)
			}
		}
	}
	return list
}

// self is the supervisor in the form of a child.
func (s *server) self() supervisor.Child {
	s.t.Helper()
	start, err := startTime(s.pid)
	if err != nil {
		s.t.Fatalf("find supervisor %d: %v", s.pid, err)
	}
	return supervisor.Child{Role: "supervisor", PID: s.pid, Start: start}
}

// awaitEnd waits until the supervisor has ended.
func (s *server) awaitEnd(limit time.Duration) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(limit):
		s.t.Fatalf("wait for supervisor %d to end: still there after %v", s.pid, limit)
	}
}

// stop ends the server as a person would, and looks at what is left (I3).
func (s *server) stop() {
	s.t.Helper()
	s.wantSound()
	if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
		s.t.Fatalf("stop server: %v", err)
	}
	s.awaitEnd(stopLimit)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("stop server: got %v, want exit code 0", s.cmd.ProcessState)
	}
	s.wantGone()
}

// wantGone checks that no process and, unless its tables are kept, no file of the instance is left.
func (s *server) wantGone() {
	s.t.Helper()
	s.until(limit, "the processes of the server to end", func() bool { return len(processesOf(s.instance)) == 0 },
		func() string { return strings.Join(processesOf(s.instance), ", ") })
	if left := filesOf(s.instance, "/dev/shm", s.o.shmDir); len(left) > 0 && !s.keep {
		s.t.Errorf("got files %q after the end of the server, want none", left)
	}
}

// finish stops what still runs; after a failure it prints the log.
func (s *server) finish() {
	if s.running() && !s.t.Failed() {
		s.stop()
	}
	if s.running() { // the test has failed: no more questions
		s.killAll()
	}
	for _, path := range filesOf(s.instance, "/dev/shm") {
		os.Remove(path)
	}
	if s.t.Failed() {
		s.t.Logf("log of %s:\n%s", s.instance, s.logTail(50))
	}
}

// killAll ends supervisor and children with SIGKILL, the children first so that nothing ends by itself.
func (s *server) killAll() {
	s.t.Helper()
	if st := s.state(); st != nil {
		for _, c := range st.Children {
			send(s.t, c, unix.SIGKILL)
		}
	}
	_ = s.cmd.Process.Kill()
	s.awaitEnd(limit)
	s.until(limit, "the killed processes to end", func() bool { return len(processesOf(s.instance)) == 0 },
		func() string { return strings.Join(processesOf(s.instance), ", ") })
}

func (s *server) logText() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

// logSinceStart is what the present supervisor has written.
func (s *server) logSinceStart() string { return s.logText()[s.started:] }

func (s *server) logTail(lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(s.logText()), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"bucket ready"`)
	})
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > 500 {
			all[i] = line[:500] + "..."
		}
	}
	return strings.Join(all, "\n")
}

// inspect runs rankd inspect on the server.
func (s *server) inspect(what string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, testutil.Binary(s.t, s.o.tags...), "inspect", what, "--run-dir="+s.runDir, "--instance="+s.instance)
	if s.o.shmDir != "" {
		cmd.Args = append(cmd.Args, "--shm-dir="+s.o.shmDir)
	}
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("inspect %s: %v", what, err)
	}
	return string(out), err
}

// wantSound asks the inspector whether the ring is as it must be.
func (s *server) wantSound() {
	s.t.Helper()
	if out, err := s.inspect("ring"); err != nil || !strings.Contains(out, "check: sound") {
		s.t.Errorf("inspect ring: got %v, want a sound one:\n%s", err, out)
	}
}
