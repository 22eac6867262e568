package sim

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clock is the time of the timeline. Tests put the fake time of testing/synctest in its place.
type clock interface {
	now() time.Duration // since some fixed moment
	wait(until time.Duration)
	close() error
}

// timerClock waits on a timerfd through the runtime's poller.
type timerClock struct {
	start time.Time
	file  *os.File
	fd    int
}

func newTimerClock() (*timerClock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	// The file owns the descriptor; it is non-blocking, so reads of it wait in the poller.
	return &timerClock{start: time.Now(), file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

func (c *timerClock) now() time.Duration { return time.Since(c.start) }

func (c *timerClock) wait(until time.Duration) {
	left := until - c.now()
	if left <= 0 {
		return
	}
	var count [8]byte
	err := unix.TimerfdSettime(c.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}, nil)
	if err == nil {
		_, err = c.file.Read(count[:])
	}
	if err != nil {
		time.Sleep(until - c.now()) // sleep: the timerfd failed; the runtime's timer is right too, only less exact
	}
}

func (c *timerClock) close() error { return c.file.Close() }
