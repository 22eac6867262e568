package sim

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the time of the timelines. Tests put the fake time of testing/synctest in its place.
type Clock interface {
	Now() time.Duration // since some fixed moment
	Wait(until time.Duration)
	Close() error
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

func (c *timerClock) Now() time.Duration { return time.Since(c.start) }

func (c *timerClock) Wait(until time.Duration) {
	left := until - c.Now()
	if left <= 0 {
		return
	}
	var count [8]byte
	err := unix.TimerfdSettime(c.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}, nil)
	if err == nil {
		_, err = c.file.Read(count[:])
	}
	if err != nil {
		time.Sleep(until - c.Now()) // sleep: the timerfd failed; the runtime's timer is right too, only less exact
	}
}

func (c *timerClock) Close() error { return c.file.Close() }
