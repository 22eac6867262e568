package steer

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

const limit = 20 * time.Second // of any wait; generous, since the machine may be busy

// bank is the sockets of one address with stand-ins for the frontends: each accepts, counts as a frontend does, and keeps
// its connections until the client closes them.
type bank struct {
	t       testing.TB
	sockets []int
	address string
	tellers []*teller
	done    sync.WaitGroup
	clients []client
	group   *Group
	closed  sync.Once
}

type teller struct {
	listener net.Listener
	accepted atomic.Uint64
	open     atomic.Int64
	away     atomic.Bool
}

type client struct {
	net.Conn
	at int // index of the socket
}

// newBank binds n sockets; they listen from open on.
func newBank(t testing.TB, n int) *bank {
	t.Helper()
	b := &bank{t: t}
	port := 0
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		b.sockets = append(b.sockets, fd)
		b.tellers = append(b.tellers, &teller{})
		for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		port = name.(*unix.SockaddrInet4).Port
	}
	b.address = fmt.Sprintf("127.0.0.1:%d", port)
	t.Cleanup(b.close)
	return b
}

// close ends everything; it may be called before the end of the test.
func (b *bank) close() {
	b.closed.Do(func() {
		if b.group != nil {
			if err := b.group.Close(); err != nil {
				b.t.Error(err)
			}
		}
		for _, c := range b.clients {
			c.Close()
		}
		for i, w := range b.tellers {
			if w.listener != nil {
				w.listener.Close()
			}
			unix.Close(b.sockets[i])
		}
		b.done.Wait()
	})
}

// listen has the sockets listen, in order, and the stand-ins accept.
func (b *bank) listen() {
	b.t.Helper()
	for _, fd := range b.sockets {
		if err := unix.Listen(fd, 128); err != nil {
			b.t.Fatal(err)
		}
	}
	for i := range b.tellers {
		b.employ(i)
	}
}

func (b *bank) employ(i int) {
	b.t.Helper()
	own, err := unix.FcntlInt(uintptr(b.sockets[i]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	f := os.NewFile(uintptr(own), "listener")
	defer f.Close()
	w := b.tellers[i]
	if w.listener, err = net.FileListener(f); err != nil {
		b.t.Fatal(err)
	}
	b.done.Go(func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return
			}
			w.accepted.Add(1)
			w.open.Add(1)
			b.done.Go(func() {
				_, _ = fmt.Fprintf(conn, "%d\n", i)
				_, _ = io.Copy(io.Discard, conn)
				w.open.Add(-1)
				conn.Close()
			})
		}
	})
}

func (b *bank) load(i int) Load {
	w := b.tellers[i]
	return Load{Accepted: w.accepted.Load(), Open: w.open.Load(), Live: !w.away.Load()}
}

func (b *bank) options(p Policy) Options {
	return Options{Policy: p, Sockets: b.sockets, Load: b.load, Log: slog.New(slog.DiscardHandler)}
}

// steer attaches a policy and has the bank listen.
func (b *bank) steer(p Policy) {
	b.t.Helper()
	var err error
	if b.group, err = Attach(b.options(p)); err != nil {
		b.t.Fatal(err)
	}
	b.listen()
}

// steerClassic attaches the classic program, whatever is permitted.
func (b *bank) steerClassic() {
	b.t.Helper()
	g := newGroup(b.options(LeastConnections))
	var err error
	if g.rule, err = attachClassic(b.sockets); err != nil {
		b.t.Fatal(err)
	}
	g.state = State{Policy: LeastConnections, Mechanism: ByClassic}
	b.group = g
	if err := g.start(); err != nil {
		b.t.Fatal(err)
	}
	b.listen()
}

// dial opens a connection without waiting for a stand-in to accept it.
func (b *bank) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", b.address, limit)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(limit))
	}
	return conn, err
}

// connect opens a connection and waits for the stand-in that took it to say which it is.
func (b *bank) connect() client {
	b.t.Helper()
	conn, err := b.dial()
	if err != nil {
		b.t.Fatal(err)
	}
	c := client{Conn: conn, at: -1}
	if _, err := fmt.Fscanf(conn, "%d\n", &c.at); err != nil {
		b.t.Fatalf("read who took a connection: %v", err)
	}
	b.clients = append(b.clients, c)
	return c
}

// leave closes the connections that leaves names, and waits until the stand-ins have seen it.
func (b *bank) leave(leaves func(n int, c client) bool) {
	b.t.Helper()
	n := -1
	b.clients = slices.DeleteFunc(b.clients, func(c client) bool {
		if n++; !leaves(n, c) {
			return false
		}
		c.Close()
		return true
	})
	testutil.Eventually(b.t, limit, "closed connections to be seen", func() bool { return sum(b.open()) == len(b.clients) })
}

func (b *bank) open() []int {
	counts := make([]int, len(b.tellers))
	for i, w := range b.tellers {
		counts[i] = int(w.open.Load())
	}
	return counts
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// gap is the difference between the most and the least connections.
func gap(counts []int) int { return slices.Max(counts) - slices.Min(counts) }
