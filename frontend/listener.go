package frontend

import (
	"fmt"
	"net"
	"os"
	"sync"

	"rankd/internal/stats"
)

// inheritedListener makes a listener of a descriptor that the supervisor passed on. The socket stays open in the
// supervisor, and with it the queue of connections that nobody has accepted.
//
// net.FileListener works on a duplicate, which shares the socket's O_NONBLOCK with every process that has it; it sets the
// flag, as everyone who accepts from the socket wants it.
func inheritedListener(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	if f == nil {
		return nil, fmt.Errorf("open listener: got descriptor %d, want an open socket", fd)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("open listener on descriptor %d: %w", fd, err)
	}
	return l, nil
}

// countedListener counts the connections that are accepted and those that are open.
type countedListener struct {
	net.Listener
	block *stats.Block
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.block.Inc(stats.Connections)
	l.block.Move(stats.OpenConnections, 1)
	return &countedConn{Conn: c, block: l.block}, nil
}

type countedConn struct {
	net.Conn
	block *stats.Block
	once  sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.block.Move(stats.OpenConnections, -1) })
	return c.Conn.Close()
}
