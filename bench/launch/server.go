package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options say which server is wanted: rankd, by the first three, or any other one by its command line.
type Options struct {
	Binary string   // the rankd command
	Model  string   // directory of the bundle
	Flags  []string // of "rankd serve", beyond those that every server here gets

	// Command is the command line of another server; {listen} in it becomes the address that it shall listen on. It prints a line
	// that begins with READY when it serves.
	Command []string
	Health  bool     // of another server: it has grpc.health.v1, which must say SERVING
	Env     []string // "NAME=value", beyond those of this process
	Dir     string   // it runs in; empty: that of this process

	CPUs       []int // that it may run on; nil: all of this process
	SmallPages bool  // the kernel gives its processes no transparent huge pages
	Ready      time.Duration
}

// Listen stands for the address in a command line.
const Listen = "{listen}"

const (
	readyLimit = 5 * time.Minute // tables of gigabytes are read meanwhile
	stopLimit  = time.Minute
	pollEvery  = 20 * time.Millisecond
	logLines   = 15
)

// Server is a running server.
type Server struct {
	Target      string // gRPC
	HTTP        string // status; empty: it has none
	PID         int
	CommandLine []string

	dir    string
	cmd    *exec.Cmd
	exited chan error
}

// Start starts a server and waits until it is ready.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := start(&o)
	if err != nil {
		return nil, fmt.Errorf("start server %s: %w", o.name(), err)
	}
	if err := s.awaitReady(ctx, &o); err != nil {
		if ctx.Err() != nil { // its log says nothing about that, and how it ends before it is ready is of no interest
			_ = s.end()
			return nil, errors.Join(fmt.Errorf("start server %s: %w", o.name(), ctx.Err()), s.leftovers(), os.RemoveAll(s.dir))
		}
		return nil, errors.Join(fmt.Errorf("start server %s: %w\n%s", o.name(), err, s.logTail()), s.Stop())
	}
	return s, nil
}

func (o *Options) name() string {
	if len(o.Command) > 0 {
		return strings.Join(o.Command, " ")
	}
	return o.Binary
}

// commandLine is the server's, for the addresses in s.
func (o *Options) commandLine(s *Server) []string {
	if len(o.Command) == 0 {
		return append([]string{
			o.Binary, "serve", "--model=" + o.Model, "--listen=" + s.Target, "--http=" + s.HTTP, "--run-dir=" + s.dir,
			"--instance=" + s.instance(), "--log-format=json",
		}, o.Flags...)
	}
	line := slices.Clone(o.Command)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], Listen, s.Target)
	}
	return line
}

func start(o *Options) (*Server, error) {
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, exited: make(chan error, 1)}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.Target = addresses[0]
	if len(o.Command) == 0 {
		s.HTTP = addresses[1]
	}
	log, err := os.Create(s.logPath())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer log.Close()
	s.CommandLine = o.commandLine(s)
	s.cmd = exec.Command(s.CommandLine[0], s.CommandLine[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, o.Dir
	s.cmd.Env = append(append(environment(), o.Env...), s.mark())
	s.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go s.keep(o, started)
	if err := <-started; err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.PID = s.cmd.Process.Pid
	return s, nil
}

// keep starts the process on a thread of its own and waits for it there: a child inherits the processors of the thread that
// starts it, and is killed when that thread ends. The thread ends with the goroutine, since it stays locked to it.
func (s *Server) keep(o *Options, started chan<- error) {
	runtime.LockOSThread()
	if len(o.CPUs) > 0 {
		var set unix.CPUSet
		for _, c := range o.CPUs {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			started <- fmt.Errorf("use processors %v: %w", o.CPUs, err)
			return
		}
	}
	err := s.startWith(o.SmallPages)
	started <- err
	if err == nil {
		s.exited <- s.cmd.Wait()
		close(s.exited)
	}
}

// startWith starts the process. Without huge pages is a property of the whole of this process that a child inherits, so it is set for
// the moment of the start only.
func (s *Server) startWith(smallPages bool) (err error) {
	if smallPages {
		if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("disable huge pages: %w", err)
		}
		defer func() { err = errors.Join(err, unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0)) }()
	}
	return s.cmd.Start()
}

// environment leaves out variables that would change the flags of the server.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "RANKD_") || strings.HasPrefix(name, "RANKD_PLUGIN") {
			env = append(env, v)
		}
	}
	return env
}

// freeAddresses gives loopback addresses that nothing listened on a moment ago, all different.
func freeAddresses(n int) (list []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// Stop ends the server, first politely, removes what it left, and reports it (I1, I3).
func (s *Server) Stop() error {
	err := errors.Join(s.end(), s.leftovers())
	if err != nil {
		err = fmt.Errorf("stop server %d: %w\n%s", s.PID, err, s.logTail())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// end ends the process and says how it ended.
func (s *Server) end() error {
	_ = s.cmd.Process.Signal(unix.SIGTERM) // gone already: Wait tells
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case err := <-s.exited: // nil if it has been waited for before
		return err
	case <-limit.C:
		_ = unix.Kill(-s.PID, unix.SIGKILL)
		return errors.Join(<-s.exited, fmt.Errorf("it ran on for %v after SIGTERM", stopLimit))
	}
}

// instance is the name of the server among all that were ever started.
func (s *Server) instance() string { return filepath.Base(s.dir) }

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// Warnings are the lines of rankd's log that are warnings or errors, the last ones if there are many.
func (s *Server) Warnings() []string {
	text, _ := os.ReadFile(s.logPath()) // none without it
	var list []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			list = append(list, line)
		}
	}
	return list[max(0, len(list)-logLines):]
}

// logTail is the end of the server's log.
func (s *Server) logTail() string {
	text, _ := os.ReadFile(s.logPath()) // for an error message only
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logLines):], "\n")
}
