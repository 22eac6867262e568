package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lifePipe ends with this process: children inherit the reading end, nobody the writing end, and nothing is ever written.
// Both are non-blocking, so that a child waits for the end in its poller and not in a thread.
type lifePipe struct {
	reading, writing int
	made             bool
}

func newLifePipe() (lifePipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return lifePipe{}, fmt.Errorf("make life pipe: %w", err)
	}
	return lifePipe{reading: ends[0], writing: ends[1], made: true}, nil
}

func (p lifePipe) close() {
	if p.made {
		unix.Close(p.reading)
		unix.Close(p.writing)
	}
}
