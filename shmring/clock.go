package shmring

import (
	"time"

	"golang.org/x/sys/unix"
)

var (
	clockStart = time.Now()
	clockBase  = monotonicNow()
)

func monotonicNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error()) // exists on every kernel that Go runs on
	}
	return ts.Nano()
}

// monotonic returns CLOCK_MONOTONIC in nanoseconds, the same clock in every process of the machine. Go's own reading of
// it needs no system call, so only the offset is asked for once.
func monotonic() int64 { return clockBase + int64(time.Since(clockStart)) }
