package shmring

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futex is the Sleeper of the kernel. The words are shared between processes, so the PRIVATE flag must not be set.
type futex struct{}

const (
	futexWait = 0
	futexWake = 1
)

// Wait blocks the thread. The value it returns is advisory: callers look at shared state, not at why they were woken.
func (futex) Wait(word *Word, value uint32, timeout time.Duration) bool {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, errno := syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return errno == unix.ETIMEDOUT
}

// Wake does not block, so the scheduler need not be told of the call.
func (futex) Wake(word *Word) {
	_, _, _ = syscall.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<30)
}
