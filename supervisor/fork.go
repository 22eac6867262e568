package supervisor

import (
	"runtime"
	"slices"
	"strings"
)

// forker runs functions on one thread that lives until it is stopped. The parent-death signal of a child goes off when the
// thread that forked it ends, and Go ends idle threads at will; so every fork happens here (I4).
type forker struct{ work chan func() }

func newForker() *forker {
	f := &forker{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
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
