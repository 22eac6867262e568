package steer

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tick is how often closed connections are learned of.
	tick = 100 * time.Millisecond
	// acceptTime is about what lies between the arrival of a connection and its frontend having counted it.
	acceptTime = time.Millisecond
	// With classic BPF every arrival asks for a new program. So many may be made at once, and so many more in a tick: a
	// flood of connections is no reason to burn a processor.
	burst, refill = 100, 20
)

// Options says what is to be steered.
type Options struct {
	Policy  Policy
	Sockets []int            // bound, not yet listening; I1. They stay the caller's.
	Load    func(i int) Load // of the frontend of Sockets[i]; called from one goroutine at a time
	Log     *slog.Logger
}

// Group is a group of sockets whose connections are steered, until Close.
type Group struct {
	o       Options
	state   State
	arrived chan struct{}
	queues  []*os.File // duplicates of the sockets, to learn of arrivals
	stop    chan struct{}
	done    sync.WaitGroup

	mu     sync.Mutex
	rule   rule
	failed bool // to renew; it is said once
}

// rule is a program in the kernel that wants to be told of the loads.
type rule interface {
	// renew tells the program of the loads. It is called from one goroutine at a time.
	renew(now time.Time, load func(i int) Load) error
	close() error
}

// Attach has the connections to the sockets spread by a policy. Auto takes what it can get, and State says what that is; any
// other policy that cannot be had is an error.
func Attach(o Options) (*Group, error) {
	g := newGroup(o)
	if err := g.attach(); err != nil {
		return nil, err
	}
	if err := g.start(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func newGroup(o Options) *Group {
	return &Group{o: o, arrived: make(chan struct{}, 1), stop: make(chan struct{})}
}

// start keeps the program told of the loads, if its policy asks for them.
func (g *Group) start() error {
	if g.state.Policy != LeastConnections {
		return nil
	}
	g.done.Go(g.run)
	if g.state.Mechanism != ByClassic {
		return nil
	}
	return g.watchQueues()
}

func (g *Group) attach() error {
	want := g.o.Policy
	switch {
	case want == None:
		g.state = State{Policy: None, Mechanism: ByHash, Why: "asked for"}
		return nil
	case len(g.o.Sockets) < 2:
		g.state = State{Policy: None, Mechanism: ByHash, Why: "there is one frontend"}
		return nil
	}
	policy, why := want, "asked for"
	if want == Auto {
		policy, why = LeastConnections, "the best, and permitted"
	}
	var refused error
	if g.rule, refused = attachProgram(g.o.Sockets, policy); refused == nil {
		g.state = State{Policy: policy, Mechanism: ByEBPF, Why: why}
		return nil
	}
	if policy == RoundRobin {
		return fmt.Errorf("check --steering: got %s, want another: %s", want, missing(refused))
	}
	why = missing(refused)
	var refusedToo error
	if g.rule, refusedToo = attachClassic(g.o.Sockets); refusedToo == nil {
		g.state = State{Policy: policy, Mechanism: ByClassic, Why: why, Fallback: true}
		return nil
	}
	if want != Auto {
		return fmt.Errorf("check --steering: got %s, want another: the kernel offers neither kind of program: %w", want, errors.Join(refused, refusedToo))
	}
	g.state = State{Policy: None, Mechanism: ByHash, Why: fmt.Sprintf("%s; nor is classic BPF: %v", why, refusedToo), Fallback: true}
	return nil
}

// missing says why there is no eBPF.
func missing(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "eBPF, which is exact, takes the capability CAP_BPF"
	}
	return fmt.Sprintf("eBPF, which is exact, is not to be had: %v", err)
}

// State says what is in force.
func (g *Group) State() State { return g.state }

// Renew reads the loads and returns when the program knows them.
func (g *Group) Renew() {
	if g.state.Policy != LeastConnections {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.rule.renew(time.Now(), g.o.Load); err != nil && !g.failed {
		g.failed = true
		g.o.Log.Error("steering cannot be told of connections, it goes on without", slog.Any("error", err))
	}
}

func (g *Group) run() {
	ticks, again := time.NewTicker(tick), time.NewTimer(tick)
	defer ticks.Stop()
	defer again.Stop()
	left := burst
	for {
		select {
		case <-g.stop:
			return
		case <-ticks.C:
			left = min(left+refill, burst)
		case <-again.C:
		case <-g.arrived:
			if left == 0 {
				continue // the next tick is near
			}
			left--
			again.Reset(acceptTime) // between queue and counter a connection is not seen
		}
		g.Renew()
	}
}

// watchQueues has an arrival at any socket noticed.
func (g *Group) watchQueues() error {
	for _, fd := range g.o.Sockets {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("watch socket for connections: %w", err)
		}
		f := os.NewFile(uintptr(own), "listener")
		g.queues = append(g.queues, f)
		conn, err := f.SyscallConn()
		if err != nil {
			return fmt.Errorf("watch socket for connections: %w", err)
		}
		g.done.Go(func() {
			// The runtime's poller tells each arrival once, whether or not a frontend has taken the connection since.
			_ = conn.Read(func(uintptr) bool { // ends when f is closed
				select {
				case g.arrived <- struct{}{}:
				default: // nobody has looked since the last one
				}
				return false
			})
		})
	}
	return nil
}

// Close ends the goroutines and releases the maps. The program stays with the sockets.
func (g *Group) Close() error {
	close(g.stop)
	for _, f := range g.queues {
		f.Close()
	}
	g.done.Wait()
	if g.rule == nil {
		return nil
	}
	return g.rule.close()
}

// queued is how many connections wait at a socket to be accepted.
func queued(socket int) (int64, error) {
	info, err := unix.GetsockoptTCPInfo(socket, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("read queue of socket: %w", err)
	}
	return int64(info.Unacked), nil // that is what it holds for a socket that listens
}
