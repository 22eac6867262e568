package steer

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"
)

// Try finds out what a policy would get on this machine: it steers sockets on free ports of the loopback address, on which
// nothing listens, and gives them up again.
func Try(policy Policy, frontends int) (_ State, err error) {
	o := Options{Policy: policy, Load: func(int) Load { return Load{} }, Log: slog.New(slog.DiscardHandler)}
	defer func() {
		for _, fd := range o.Sockets {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	address := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	for range frontends {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return State{}, fmt.Errorf("make socket: %w", err)
		}
		o.Sockets = append(o.Sockets, fd)
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		if err == nil {
			err = unix.Bind(fd, address)
		}
		if err != nil {
			return State{}, fmt.Errorf("share a port between sockets: %w", err)
		}
		bound, err := unix.Getsockname(fd)
		if err != nil {
			return State{}, fmt.Errorf("share a port between sockets: %w", err)
		}
		if four, ok := bound.(*unix.SockaddrInet4); ok {
			address.Port = four.Port
		}
	}
	g, err := Attach(o)
	if err != nil {
		return State{}, err
	}
	return g.State(), g.Close()
}
