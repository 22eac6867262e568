package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// ticksPerSecond is the unit of times in /proc/PID/stat. It is 100 on every Linux that Go runs on.
	ticksPerSecond = 100
	pageBytes      = 4096
)

// Process is what one process has used.
type Process struct {
	PID  int     `json:"pid"`
	Name string  `json:"name"` // the command and, for one with sub-commands, its first argument
	CPU  float64 `json:"cpu_s"`
	RSS  int64   `json:"rss_bytes"`
}

// Tree follows a process and its descendants.
type Tree struct {
	root int
	seen map[int]*Process // all there ever were, by pid
}

// NewTree starts to follow the process.
func NewTree(root int) *Tree {
	return &Tree{root: root, seen: map[int]*Process{}}
}

// Read returns the processes that live now. The error is that of a root that is gone.
func (t *Tree) Read() ([]Process, error) {
	pids, err := descendants(t.root)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, pid := range pids {
		p, err := read(pid)
		if err != nil {
			continue // it has ended
		}
		t.seen[pid] = p
		list = append(list, *p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("read process %d: %w", t.root, os.ErrProcessDone)
	}
	return list, nil
}

// CPU returns the CPU seconds of all processes so far (I1). What a process used between the last Read and its end is lost.
func (t *Tree) CPU() (float64, error) {
	if _, err := t.Read(); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range t.seen {
		sum += p.CPU
	}
	return sum, nil
}

// read looks at one process.
func read(pid int) (*Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name may hold anything; the fields begin behind its last parenthesis, with the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return nil, fmt.Errorf("read process %d: got %d fields of stat", pid, len(fields))
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i-3], 10, 64) // the kernel's own numbers
		return n
	}
	return &Process{PID: pid, Name: nameOf(pid), CPU: float64(number(14)+number(15)) / ticksPerSecond, RSS: number(24) * pageBytes}, nil
}

// nameOf is the base name of the command and its first argument that is no flag.
func nameOf(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	name := filepath.Base(args[0])
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") && !strings.ContainsAny(a, " \n") {
			return name + " " + filepath.Base(a)
		}
	}
	return name
}

// descendants lists a process and all below it.
func descendants(root int) ([]int, error) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", root)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = os.ErrProcessDone
		}
		return nil, fmt.Errorf("read process %d: %w", root, err)
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", list[i]))
		for _, path := range tasks {
			text, _ := os.ReadFile(path) // gone: no children
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					list = append(list, pid)
				}
			}
		}
	}
	return list, nil
}

// Usage returns the CPU seconds of this process so far.
func Usage() float64 { return usage(syscall.RUSAGE_SELF) }

// ThreadUsage returns those of the calling thread; the goroutine must be locked to it.
func ThreadUsage() float64 { return usage(rusageThread) }

const rusageThread = 1

func usage(who int) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		return 0 // impossible for these two
	}
	seconds := func(v syscall.Timeval) float64 { return float64(v.Sec) + float64(v.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
