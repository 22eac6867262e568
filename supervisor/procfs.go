package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// identity names a process beyond the reuse of its pid: Start is its start time in clock ticks since boot.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// identify reads the identity of a process that exists and is not a zombie.
func identify(pid int) (identity, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	// The second field, the name in parentheses, may hold anything; the fields after the last ")" start with the third.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return identity{}, fmt.Errorf("identify process %d: got %d fields, want 20 behind the name", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return identity{}, fmt.Errorf("identify process %d: %w", pid, os.ErrProcessDone)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return identity{}, fmt.Errorf("identify process %d: start time: %w", pid, err)
	}
	return identity{PID: pid, Start: start}, nil
}

// alive reports whether exactly this process still runs.
func (id identity) alive() bool {
	now, err := identify(id.PID)
	return err == nil && now == id
}

// end kills exactly this process and waits until it is gone, at most for limit. It is no error if it was gone already.
func (id identity) end(limit time.Duration) error {
	pidfd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", id.PID, err)
	}
	defer unix.Close(pidfd)
	// From here on pidfd names one process for good; see whether it is the one that was meant.
	if !id.alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", id.PID, err)
	}
	deadline := time.Now().Add(limit)
	for {
		left := time.Until(deadline)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(max(left, 0).Milliseconds()))
		switch {
		case n > 0:
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", id.PID, err)
		case left <= 0:
			return fmt.Errorf("wait for process %d: still there %v after it was killed", id.PID, limit)
		}
	}
}
