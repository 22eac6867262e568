package h2wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a session's place in a loop.
type socket struct {
	fd      int
	session Session
	left    []byte // the start of a frame whose end is still to come
	dirty   bool   // in Loop.dirty
	waiting bool   // the socket takes no more until epoll says so
	watched bool   // epoll was asked to say so
}

// Dial connects to "host:port" or "unix:path" and returns a descriptor for Loop.Attach, which takes it over.
func Dial(ctx context.Context, address string) (fd int, err error) {
	network := "tcp"
	if path, ok := unixPath(address); ok {
		network, address = "unix", path
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return -1, fmt.Errorf("connect: %w", err)
	}
	return Detach(conn)
}

func unixPath(address string) (string, bool) {
	const scheme = "unix:"
	if len(address) > len(scheme) && address[:len(scheme)] == scheme {
		return address[len(scheme):], true
	}
	return "", false
}

// Detach takes a connection away from the runtime's poller and returns a descriptor of it for Loop.Attach. The connection is closed.
func Detach(conn net.Conn) (fd int, err error) {
	defer conn.Close()
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("detach connection: got %T, want one with a descriptor", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("detach connection: %w", err)
	}
	var dup error
	err = raw.Control(func(own uintptr) {
		// The duplicate shares O_NONBLOCK, which the runtime has set.
		fd, dup = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(err, dup); err != nil {
		return -1, fmt.Errorf("detach connection: %w", err)
	}
	return fd, nil
}

// read fills buf once. It returns io.EOF at the end, and 0 with no error if there is nothing now.
func (s *socket) read(buf []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, buf)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}

// write writes what the session has, as far as the socket takes it.
func (s *socket) write() error {
	for out := s.session.Out(); len(out) > 0; out = s.session.Out() {
		n, err := unix.Write(s.fd, out)
		switch {
		case err == nil:
			s.session.Sent(n)
			s.waiting = false
		case errors.Is(err, unix.EAGAIN):
			s.waiting = true
			return nil
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return nil
}
