//go:build faults

package faults

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether this binary was built with fault hooks.
const Enabled = true

var (
	present atomic.Pointer[spec]   // what is to happen now
	self    atomic.Pointer[string] // the name of this process, "role:index#incarnation"; nil: not told yet
)

func init() {
	s, err := parse(os.Getenv("RANKD_FAULTS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "rankd: RANKD_FAULTS:", err)
		os.Exit(78) // bad configuration: not restarted
	}
	present.Store(&s)
	if path := os.Getenv("RANKD_FAULTS_FILE"); path != "" {
		listen(path)
	}
}

// Become says what process this is. Until then only items for every process happen.
func Become(role string, index int, incarnation uint32) {
	name := fmt.Sprintf("%s:%d#%d", role, index, incarnation)
	self.Store(&name)
}

// Am reports whether a spec that names a process, such as "deviceowner#1" or "" for all, means this one.
func Am(process string) bool {
	name := ""
	if p := self.Load(); p != nil {
		name = *p
	}
	return means(process, name)
}

// Hit performs the actions that the spec names for point, if any.
func Hit(point string) {
	for _, a := range (*present.Load())[point] {
		if Am(a.process) && a.due() {
			a.perform()
		}
	}
}

func (a *action) perform() {
	switch a.verb {
	case "sleep":
		time.Sleep(a.duration)
	case "freeze":
		select {}
	case "exit":
		os.Exit(a.code)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may be a moment away
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
