package supervisor

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"rankd/internal/topology"

	"golang.org/x/sys/unix"
)

// forker runs functions on one thread that lives until it is stopped. The parent-death signal of a child goes off when the
// thread that forked it ends, and Go ends idle threads at will; so every fork happens here (I4).
type forker struct {
	work   chan func()
	usual  unix.CPUSetDynamic // on which the thread may run; read when it began
	pinned bool               // the thread's affinity was changed
	err    error              // of reading usual
}

func newForker() *forker {
	f := &forker{work: make(chan func()), usual: unix.NewCPUSet(topology.MaxNumber + 1)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		f.err = unix.SchedGetaffinityDynamic(0, f.usual)
		for do := range f.work {
			do()
		}
	}()
	return f
}

// run runs do on the thread and returns when it is done.
func (f *forker) run(do func()) {
	done := make(chan struct{})
	f.work <- func() { defer close(done); do() }
	<-done
}

// pin has the next child run on some CPUs, which it inherits from the thread before its first own instruction; nil: wherever the
// supervisor may (I10). Preconditions: it is called on the thread.
func (f *forker) pin(cpus topology.Set) error {
	set := f.usual
	if len(cpus) > 0 {
		set = unix.NewCPUSet(topology.MaxNumber + 1)
		for _, c := range cpus {
			set.Set(c)
		}
	} else if !f.pinned {
		return nil
	}
	if f.err != nil {
		return fmt.Errorf("read affinity of the supervisor: %w", f.err)
	}
	f.pinned = true
	if err := unix.SchedSetaffinityDynamic(0, set); err != nil {
		return fmt.Errorf("pin child to CPUs %s: %w", cpus, err)
	}
	return nil
}

// stop ends the thread and with it every child that still runs.
func (f *forker) stop() { close(f.work) }

// notInherited are variables that a service manager set for the supervisor alone.
var notInherited = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}

// childEnv is the environment of a child: ours without what belongs to the supervisor, with extra on top.
func childEnv(ours, extra []string) []string {
	env := make([]string, 0, len(ours)+len(extra))
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(notInherited, name) && !overridden(extra, name) {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}

func overridden(extra []string, name string) bool {
	for _, x := range extra {
		if strings.HasPrefix(x, name+"=") {
			return true
		}
	}
	return false
}
