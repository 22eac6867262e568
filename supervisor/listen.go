package supervisor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// backlog is the length of each frontend's accept queue; the kernel cuts it to net.core.somaxconn.
const backlog = 4096

// listeners are the sockets of all frontends, bound to one address (I8). They are raw descriptors: a net.Listener handed to
// a child would have the shared socket put into blocking mode.
type listeners struct {
	fds     []int
	address netip.AddrPort
}

// resolve finds the address that a flag names. A host name gives its first address.
func resolve(flag, address string) (netip.AddrPort, error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("check --%s: got %q, want host:port: %w", flag, address, err)
	}
	return wildcard(tcp.AddrPort()), nil
}

// overlap reports whether connections to one address may reach a socket that is bound to the other. The address of all hosts
// overlaps with any on its port; that of IPv6 takes IPv4 too.
func overlap(a, b netip.AddrPort) bool {
	if a.Port() != b.Port() {
		return false
	}
	x, y := a.Addr(), b.Addr()
	switch {
	case x == y, x.IsUnspecified() && x.Is6(), y.IsUnspecified() && y.Is6():
		return true
	}
	return x.Is4() == y.Is4() && (x.IsUnspecified() || y.IsUnspecified())
}

// bind makes n sockets on an address. Nothing is accepted or queued before listen. Port 0 is a free port, the same for all.
func bind(want netip.AddrPort, n int) (*listeners, error) {
	if want.Port() != 0 {
		if err := probe(want); err != nil {
			return nil, err
		}
	}
	l := &listeners{}
	for range n {
		fd, got, err := bindOne(want, true)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("listen on %s: %w", want, err)
		}
		l.fds = append(l.fds, fd)
		l.address, want = got, got
	}
	return l, nil
}

// probe finds out whether anyone listens on the address. Binding with SO_REUSEPORT, as the frontends' sockets do, would join
// another program of this user that uses it too; binding without it does not.
func probe(address netip.AddrPort) error {
	fd, _, err := bindOne(address, false)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen on %s: another program holds this port: stop it or choose another --listen: %w", address, err)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return unix.Close(fd)
}

// wildcard replaces the missing host of ":8500" by the IPv6 one, which takes IPv4 too, or by the IPv4 one where there is no IPv6.
func wildcard(a netip.AddrPort) netip.AddrPort {
	host := a.Addr().Unmap()
	if !host.IsValid() {
		host = netip.IPv6Unspecified()
		if fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			host = netip.IPv4Unspecified()
		} else {
			unix.Close(fd)
		}
	}
	return netip.AddrPortFrom(host, a.Port())
}

func bindOne(address netip.AddrPort, share bool) (fd int, got netip.AddrPort, err error) {
	family, sa, err := sockaddr(address)
	if err != nil {
		return -1, got, err
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, got, fmt.Errorf("make socket: %w", err)
	}
	set := func(level, option, value int) {
		if err == nil {
			err = unix.SetsockoptInt(fd, level, option, value)
		}
	}
	set(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // also: without it a socket that has a program may not listen beside others (package steer, I1)
	if share {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if family == unix.AF_INET6 {
		only := 1
		if address.Addr().IsUnspecified() {
			only = 0
		}
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, got, err
	}
	return fd, netip.AddrPortFrom(address.Addr(), portOf(bound)), nil
}

func sockaddr(a netip.AddrPort) (family int, sa unix.Sockaddr, err error) {
	host := a.Addr()
	if host.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: host.As4()}, nil
	}
	six := &unix.SockaddrInet6{Port: int(a.Port()), Addr: host.As16()}
	if zone := host.Zone(); zone != "" {
		link, err := net.InterfaceByName(zone)
		if err != nil {
			return 0, nil, fmt.Errorf("find interface %q: %w", zone, err)
		}
		six.ZoneId = uint32(link.Index)
	}
	return unix.AF_INET6, six, nil
}

func portOf(sa unix.Sockaddr) uint16 {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port)
	case *unix.SockaddrInet6:
		return uint16(a.Port)
	}
	return 0
}

// listen opens the accept queues. It may be called again.
func (l *listeners) listen() error {
	for i, fd := range l.fds {
		if err := unix.Listen(fd, backlog); err != nil {
			return fmt.Errorf("listen on %s for frontend %d: %w", l.address, i, err)
		}
	}
	return nil
}

func (l *listeners) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
	l.fds = nil
}
