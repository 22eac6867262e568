package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/supervisor"
)

// startTime is when a process started, in clock ticks since boot; an error if there is none or only its remains.
func startTime(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func alive(c supervisor.Child) bool {
	start, err := startTime(c.PID)
	return err == nil && start == c.Start
}

// send signals exactly the process that the state file means (I2).
func send(t testing.TB, c supervisor.Child, sig unix.Signal) {
	t.Helper()
	fd, err := unix.PidfdOpen(c.PID, 0)
	if err == nil {
		defer unix.Close(fd)
		if !alive(c) {
			err = os.ErrProcessDone
		} else {
			err = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
	}
	if err != nil && !(sig == unix.SIGKILL && (errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH))) {
		t.Fatalf("send %v to %s %d (pid %d): %v", sig, c.Role, c.Index, c.PID, err)
	}
}

// processesOf lists the living processes of an instance: the supervisor and its children carry its name in their arguments.
func processesOf(instance string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		text, _ := os.ReadFile(path) // empty for a process that has ended
		for _, arg := range bytes.Split(text, []byte{0}) {
			if string(arg) == "--instance="+instance {
				words := strings.Split(string(text), "\x00")
				found = append(found, fmt.Sprintf("%s %v", path, words[:min(2, len(words))]))
			}
		}
	}
	return found
}

// filesOf lists the files of an instance in the directories given.
func filesOf(instance string, dirs ...string) []string {
	var found []string
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "rankd."+instance+".") {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
}

// statusBytes reads a size from /proc/PID/status, such as "VmRSS" or "VmHWM".
func statusBytes(t testing.TB, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("read memory of process %d: %v", pid, err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatalf("read %s of process %d: %v", name, pid, err)
			}
			return n << 10
		}
	}
	t.Fatalf("read memory of process %d: no %s", pid, name)
	return 0
}

// resetPeak makes VmHWM start again from the present size.
func resetPeak(t testing.TB, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatalf("reset peak memory of process %d: %v", pid, err)
	}
}

// socketOwner finds which of some processes has accepted the connection between two ports on this machine.
func socketOwner(serverPort, clientPort uint16, pids []int) (int, bool) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, false
	}
	local, remote := fmt.Sprintf(":%04X", serverPort), fmt.Sprintf(":%04X", clientPort)
	inode := ""
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) > 9 && strings.HasSuffix(f[1], local) && strings.HasSuffix(f[2], remote) && f[9] != "0" {
			inode = "socket:[" + f[9] + "]"
		}
	}
	if inode == "" {
		return 0, false
	}
	for _, pid := range pids {
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		for _, fd := range fds {
			if target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); target == inode {
				return pid, true
			}
		}
	}
	return 0, false
}
