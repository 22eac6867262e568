package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// action is what one item of a spec does.
type action struct {
	process  string // whom it is for; "": everyone
	verb     string
	duration time.Duration
	code     int
	at       uint64 // 0: every visit
	visits   atomic.Uint64
}

// due counts a visit and reports whether the action is to happen on it.
func (a *action) due() bool {
	n := a.visits.Add(1)
	return a.at == 0 || n == a.at
}

// spec is the actions of each point.
type spec map[string][]*action

func parse(text string) (spec, error) {
	s := spec{}
	if text = strings.TrimSpace(text); text == "" {
		return s, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		point, a, err := parseItem(item)
		if err != nil {
			return nil, fmt.Errorf("parse fault %q: %w", item, err)
		}
		s[point] = append(s[point], a)
	}
	return s, nil
}

func parseItem(item string) (point string, a *action, err error) {
	a = &action{}
	point, rest, ok := strings.Cut(item, "=")
	if !ok {
		return "", nil, fmt.Errorf("got no \"=\", want [process/]point=action")
	}
	if process, name, aimed := strings.Cut(point, "/"); aimed {
		a.process, point = process, name
		if err := checkProcess(process); err != nil {
			return "", nil, err
		}
	}
	rest, at, counted := strings.Cut(rest, "@")
	if counted {
		if a.at, err = strconv.ParseUint(at, 10, 64); err != nil || a.at == 0 {
			return "", nil, fmt.Errorf("got count %q, want a number from 1 on", at)
		}
	}
	verb, argument, _ := strings.Cut(rest, ":")
	a.verb = verb
	switch verb {
	case "sleep":
		a.duration, err = time.ParseDuration(argument)
	case "exit":
		a.code, err = strconv.Atoi(argument)
	case "freeze", "kill", "stop":
	default:
		err = fmt.Errorf("unknown action %q", verb)
	}
	return point, a, err
}

// The roles that a process may have.
const (
	Supervisor  = "supervisor"
	Frontend    = "frontend"
	DeviceOwner = "deviceowner"
)

// splitProcess takes "role:index#incarnation" apart; a part that is missing is empty.
func splitProcess(process string) (role, index, incarnation string) {
	process, incarnation, _ = strings.Cut(process, "#")
	role, index, _ = strings.Cut(process, ":")
	return role, index, incarnation
}

func checkProcess(process string) error {
	role, index, incarnation := splitProcess(process)
	if role != Supervisor && role != Frontend && role != DeviceOwner {
		return fmt.Errorf("got process %q, want frontend, deviceowner or supervisor before any ':' or '#'", process)
	}
	for _, number := range []string{index, incarnation} {
		if _, err := strconv.ParseUint(number, 10, 32); number != "" && err != nil {
			return fmt.Errorf("got process %q, want numbers behind ':' and '#'", process)
		}
	}
	return nil
}

// means reports whether a pattern of a spec, such as "frontend:1" or "", means the process that is called name.
func means(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	role, index, incarnation := splitProcess(pattern)
	ownRole, ownIndex, ownIncarnation := splitProcess(name)
	return role == ownRole && (index == "" || index == ownIndex) && (incarnation == "" || incarnation == ownIncarnation)
}
