//go:build faults

package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether this binary was built with fault hooks.
const Enabled = true

type action struct {
	verb     string
	duration time.Duration
	code     int
	at       uint64 // 0: every visit
	visits   atomic.Uint64
}

var points = mustParse(os.Getenv("RANKD_FAULTS"))

func mustParse(spec string) map[string]*action {
	m, err := parse(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rankd:", err)
		os.Exit(2)
	}
	return m
}

func parse(spec string) (map[string]*action, error) {
	m := map[string]*action{}
	if spec == "" {
		return m, nil
	}
	for _, item := range strings.Split(spec, ",") {
		point, rest, ok := strings.Cut(item, "=")
		if !ok {
			return nil, fmt.Errorf("parse RANKD_FAULTS: got %q, want point=action", item)
		}
		a := &action{}
		rest, at, counted := strings.Cut(rest, "@")
		if counted {
			n, err := strconv.ParseUint(at, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("parse RANKD_FAULTS count of %q: %w", item, err)
			}
			a.at = n
		}
		verb, arg, _ := strings.Cut(rest, ":")
		a.verb = verb
		var err error
		switch verb {
		case "sleep":
			a.duration, err = time.ParseDuration(arg)
		case "exit":
			a.code, err = strconv.Atoi(arg)
		case "freeze", "kill", "stop":
		default:
			err = fmt.Errorf("unknown action %q", verb)
		}
		if err != nil {
			return nil, fmt.Errorf("parse RANKD_FAULTS item %q: %w", item, err)
		}
		m[point] = a
	}
	return m, nil
}

// Hit performs the action that RANKD_FAULTS names for point, if any.
func Hit(point string) {
	a := points[point]
	if a == nil {
		return
	}
	if n := a.visits.Add(1); a.at != 0 && n != a.at {
		return
	}
	switch a.verb {
	case "sleep":
		time.Sleep(a.duration)
	case "freeze":
		select {}
	case "exit":
		os.Exit(a.code)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
