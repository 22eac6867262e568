package h2wire

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Session is the protocol of one connection, without its socket. All methods are called on the loop's goroutine.
type Session interface {
	Bind(mark func())                              // mark says that there is something in Out
	Feed(in []byte) (n int, err error)             // takes whole frames; an error ends the connection
	Out() []byte                                   // what is to be written next
	Sent(n int)                                    // the first n bytes of Out were
	Expire(now time.Duration) (next time.Duration) // ends what is late; 0: nothing to wait for
	Closed(err error)                              // the socket is gone
}

const (
	readBytes   = 256 << 10
	expireEvery = time.Millisecond     // how late a deadline may be noticed
	expireIdle  = 5 * time.Millisecond // the same in a loop that sleeps
)

// Loop moves the bytes of sessions. It belongs to one goroutine, which calls Turn again and again.
//
// Rejected: a goroutine a connection on the runtime's poller. It costs a goroutine switch and a read that fails for every
// reply, together about as much as all of the rest of a call.
type Loop struct {
	epoll   int
	timer   int
	wake    int // eventfd: Post
	began   time.Time
	events  []unix.EpollEvent
	buf     []byte // what is being read, of all sessions
	sockets map[int]*socket
	dirty   []*socket
	expire  time.Duration // when Expire is to be called next
	active  bool          // there are deadlines, or may be new ones
	armed   time.Duration // what the timer is set to

	mu     sync.Mutex // guards what follows
	posted []func()
	closed bool
}

// NewLoop opens a loop. The caller closes it.
func NewLoop() (*Loop, error) {
	l := &Loop{epoll: -1, timer: -1, wake: -1, began: time.Now(), events: make([]unix.EpollEvent, 256), buf: make([]byte, readBytes), sockets: map[int]*socket{}}
	var errs [3]error
	l.epoll, errs[0] = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	l.timer, errs[1] = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	l.wake, errs[2] = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	err := errors.Join(errs[:]...)
	if err == nil {
		// Edge-triggered, so that neither has to be read.
		for _, fd := range []int{l.timer, l.wake} {
			err = errors.Join(err, unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open loop: %w", err), l.Close())
	}
	return l, nil
}

// Now is the loop's clock: the time since it was opened.
func (l *Loop) Now() time.Duration { return time.Since(l.began) }

// Attach takes over a connected, non-blocking descriptor, also to close it. On an error it is closed.
func (l *Loop) Attach(fd int, s Session) error {
	k := &socket{fd: fd, session: s}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return errors.Join(fmt.Errorf("watch connection: %w", err), unix.Close(fd))
	}
	l.sockets[fd] = k
	s.Bind(func() { l.mark(k) })
	l.mark(k)
	return nil
}

func (l *Loop) mark(k *socket) {
	if !k.dirty {
		k.dirty, l.active = true, true
		l.dirty = append(l.dirty, k)
	}
}

// Detach closes the socket of a session without telling it, after a last attempt to write what it has.
func (l *Loop) Detach(s Session) {
	for _, k := range l.sockets {
		if k.session == s {
			_ = k.write() // a farewell; that it may not arrive is in its nature
			l.drop(k, nil)
			return
		}
	}
}

// Sessions returns how many sessions are attached.
func (l *Loop) Sessions() int { return len(l.sockets) }

// Post has f run on the loop's goroutine, in its next turn; it wakes the loop. After Close it does nothing and returns false.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.posted = append(l.posted, f)
	if len(l.posted) == 1 {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it can only fail when it is at its top, and then it is awake
	}
	return true
}

// Turn writes what is to be written, waits up to wait for something to happen (0: only looks), and handles it.
func (l *Loop) Turn(wait time.Duration) error {
	l.flush()
	now := l.Now()
	if now >= l.expire {
		wait = min(wait, l.expireAll(now))
		l.flush()
	} else if l.active {
		wait = min(wait, l.expire-now)
	}
	n, err := l.poll(now, wait)
	if err != nil {
		return fmt.Errorf("poll connections: %w", err)
	}
	for i := range l.events[:n] {
		e := &l.events[i]
		switch fd := int(e.Fd); fd {
		case l.timer:
			l.armed = 0
		case l.wake:
			l.runPosted()
		default:
			if k := l.sockets[fd]; k != nil {
				l.serve(k, e.Events)
			}
		}
	}
	l.flush()
	return nil
}

// poll waits at most wait. epoll_wait itself counts in milliseconds, so short waits are timed by a timerfd.
func (l *Loop) poll(now, wait time.Duration) (int, error) {
	timeout := 0
	if wait > 0 {
		timeout = int((wait + 2*time.Millisecond) / time.Millisecond) // the timer comes first
		until := now + wait
		// A timer that is set for a moment earlier, or a little later, is good enough and saves a system call.
		if l.armed == 0 || l.armed < now || l.armed > until {
			if err := setTimer(l.timer, wait); err != nil {
				return 0, err
			}
			l.armed = until
		}
	}
	n, err := unix.EpollWait(l.epoll, l.events, timeout)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}

// setTimer has the timer fire once, after d.
func setTimer(fd int, d time.Duration) error {
	return unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}, nil)
}

// expireAll ends what is late and returns how long the loop may sleep.
func (l *Loop) expireAll(now time.Duration) time.Duration {
	sleep := time.Duration(1<<63 - 1)
	for _, k := range l.sockets {
		if next := k.session.Expire(now); next > 0 {
			sleep = min(sleep, max(next-now, expireEvery), expireIdle)
		}
	}
	l.expire = now + expireEvery
	l.active = sleep <= expireIdle
	return sleep
}

// serve reads once; what is left is told again by the next poll.
func (l *Loop) serve(k *socket, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		k.waiting = false
		l.mark(k)
	}
	if events&^unix.EPOLLOUT == 0 {
		return
	}
	held := copy(l.buf, k.left)
	n, err := k.read(l.buf[held:])
	if err != nil {
		l.drop(k, err)
		return
	}
	if n == 0 {
		return
	}
	in := l.buf[:held+n]
	used, err := k.session.Feed(in)
	if err != nil {
		_ = k.write() // the farewell
		l.drop(k, err)
		return
	}
	k.left = append(k.left[:0], in[used:]...)
	l.mark(k)
	l.write(k)
}

// write writes what the session has now.
func (l *Loop) write(k *socket) {
	k.dirty = false
	if k.waiting {
		return
	}
	if err := k.write(); err != nil {
		l.drop(k, err)
		return
	}
	if k.waiting != k.watched {
		k.watched = k.waiting
		events := uint32(unix.EPOLLIN)
		if k.watched {
			events |= unix.EPOLLOUT
		}
		if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, k.fd, &unix.EpollEvent{Events: events, Fd: int32(k.fd)}); err != nil {
			l.drop(k, err)
		}
	}
}

// flush writes what sessions have marked.
func (l *Loop) flush() {
	for len(l.dirty) > 0 {
		list := l.dirty
		l.dirty = nil
		for _, k := range list {
			if k.dirty && k.fd >= 0 {
				l.write(k)
			}
		}
		if l.dirty == nil {
			l.dirty = list[:0]
		}
	}
}

// drop closes a socket; err, if not nil, is told to the session.
func (l *Loop) drop(k *socket, err error) {
	if k.fd < 0 {
		return
	}
	delete(l.sockets, k.fd)
	_ = unix.Close(k.fd) // which also takes it out of the epoll set
	k.fd, k.dirty, k.left = -1, false, nil
	if err != nil {
		k.session.Closed(err)
	}
}

func (l *Loop) runPosted() {
	l.mu.Lock()
	list := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, f := range list {
		f()
	}
}

// ErrLoopClosed is what sessions are told that were attached when their loop was closed.
var ErrLoopClosed = errors.New("loop was closed")

// Close ends all sessions. Functions posted but not run are dropped.
func (l *Loop) Close() error {
	l.mu.Lock()
	l.closed, l.posted = true, nil
	l.mu.Unlock()
	for _, k := range l.sockets {
		l.drop(k, ErrLoopClosed)
	}
	var errs []error
	for _, fd := range []int{l.epoll, l.timer, l.wake} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	l.epoll, l.timer, l.wake = -1, -1, -1
	return errors.Join(errs...)
}
