package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"rankd/internal/child"
	"rankd/internal/topology"

	"golang.org/x/sys/unix"
)

// process is a child that was started and, until its exit event, not reaped.
type process struct {
	identity
	place       *place
	incarnation uint32
	started     time.Time
	handle      *os.Process
	killed      string // why we killed it, or ""
	words       lastWords
	relayed     chan struct{} // closed when all that it wrote is passed on
}

// event is something that a goroutine learned about a child.
type event struct {
	from   *process
	kind   eventKind
	status syscall.WaitStatus // of exited
	err    error              // of failed
}

type eventKind int

const (
	exited    eventKind = iota // reaped: it will never run again
	announced                  // wrote a good ready line
	failed                     // must be killed: no ready line in time, or a wrong one
)

// spec is what to start.
type spec struct {
	place      *place
	executable string
	args       []string // behind the program's name
	env        []string
	cpus       topology.Set // on which it runs; nil: wherever the supervisor may
	fds        []int        // inherited in this order from descriptor 3 on
	limit      time.Duration
	ready      child.Ready // the line that is expected
	readyPipe  *os.File    // our reading end
}

// start forks a child. Its events go to events, which must be read until exited came. relay is called with the reading end
// of the child's output and takes it over, and closes relayed at its end; it must not wait.
func start(f *forker, s spec, events chan<- event, relay func(p *process, output *os.File)) (*process, error) {
	output, writing, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make output pipe: %w", err)
	}
	defer writing.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		output.Close()
		return nil, fmt.Errorf("open input of child: %w", err)
	}
	defer null.Close()
	files := []uintptr{null.Fd(), writing.Fd(), writing.Fd()}
	for _, fd := range s.fds {
		files = append(files, uintptr(fd))
	}
	p := &process{place: s.place, incarnation: s.ready.Incarnation, started: time.Now(), relayed: make(chan struct{})}
	f.run(func() {
		if err = f.pin(s.cpus); err != nil {
			return
		}
		p.PID, err = syscall.ForkExec(s.executable, append([]string{"rankd"}, s.args...), &syscall.ProcAttr{
			Env: s.env, Files: files,
			// A session of its own keeps the terminal's Ctrl-C away from the child: only the supervisor is to be asked to stop.
			Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true},
		})
	})
	if err != nil {
		output.Close()
		return nil, fmt.Errorf("start %s: %w", s.executable, err)
	}
	// It is not reaped yet, so the pid cannot be anyone else's, nor can these two go wrong for another reason than its death.
	p.handle, _ = os.FindProcess(p.PID)
	if id, err := identify(p.PID); err == nil {
		p.identity = id
	}
	relay(p, output)
	readyRead := make(chan struct{})
	go func() {
		defer close(readyRead)
		awaitReady(p, s, events)
	}()
	go awaitExit(p, readyRead, events)
	return p, nil
}

// wordsLimit bounds the wait for what a dead child wrote last: a process that it left behind may hold its output open.
const wordsLimit = 200 * time.Millisecond

// awaitExit reaps the child. Its end is told after its ready line, if there was one: a death after READY must be seen as such.
// It is told after its last words too, since they say why; one that was killed has none.
func awaitExit(p *process, readyRead <-chan struct{}, events chan<- event) {
	state, err := p.handle.Wait()
	<-readyRead
	e := event{from: p, kind: exited, err: err}
	if err == nil {
		e.status, _ = state.Sys().(syscall.WaitStatus)
	}
	if err != nil || e.status.Signal() != syscall.SIGKILL {
		select {
		case <-p.relayed:
		case <-time.After(wordsLimit):
		}
	}
	events <- e
}

// awaitReady reads the ready line. Without one in time the child failed; one that dies first closes the pipe, and its exit
// says enough.
func awaitReady(p *process, s spec, events chan<- event) {
	defer s.readyPipe.Close()
	_ = s.readyPipe.SetReadDeadline(time.Now().Add(s.limit))
	line, err := bufio.NewReaderSize(s.readyPipe, 256).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		events <- event{from: p, kind: failed, err: fmt.Errorf("wait for ready line: none after %v", s.limit)}
		return
	}
	if err != nil {
		return
	}
	got, err := child.ParseReady(line)
	if err == nil && got != s.ready {
		err = fmt.Errorf("check ready line: got %q, want %q", got, s.ready)
	}
	if err != nil {
		events <- event{from: p, kind: failed, err: err}
		return
	}
	events <- event{from: p, kind: announced}
}

// signal sends a signal; a child that is gone already takes none.
func (p *process) signal(sig unix.Signal) {
	_ = p.handle.Signal(sig)
}

// kill ends the child at once and remembers why.
func (p *process) kill(why string) {
	if p.killed == "" {
		p.killed = why
	}
	p.signal(unix.SIGKILL)
}

// ending describes the end of a child for people.
func ending(s syscall.WaitStatus) string {
	switch {
	case s.Exited():
		return fmt.Sprintf("exit code %d", s.ExitStatus())
	case s.Signaled():
		return fmt.Sprintf("signal %s", unix.SignalName(s.Signal()))
	}
	return "unknown end"
}
