package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"rankd/internal/h2wire"
)

const (
	dialLimit = 5 * time.Second
	dialAgain = 100 * time.Millisecond
)

// pool is the connections of a worker. Those that are lost are made anew in the background.
type pool struct {
	targets []string // connection i goes to target i modulo their number
	loop    *h2wire.Loop
	list    []connection
	turn    int
	resume  func(slot uint32) // a parked caller may go on

	ctx        context.Context
	cancel     context.CancelFunc
	dialers    sync.WaitGroup
	reconnects uint64
}

// connection is one place in the pool.
type connection struct {
	session *h2wire.Client
	dialing bool
	parked  []uint32 // callers that wait for it
}

func (p *pool) open(ctx context.Context, targets []string, loop *h2wire.Loop, n int, resume func(slot uint32)) {
	p.targets, p.loop, p.list, p.resume = targets, loop, make([]connection, n), resume
	p.ctx, p.cancel = context.WithCancel(ctx)
}

func (p *pool) target(i int) string { return p.targets[i%len(p.targets)] }

// connect makes all connections.
func (p *pool) connect(ctx context.Context) error {
	descriptors := make([]int, len(p.list))
	var g errgroup.Group
	g.SetLimit(16)
	for i := range descriptors {
		descriptors[i] = -1
		g.Go(func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, dialLimit)
			defer cancel()
			if descriptors[i], err = h2wire.Dial(ctx, p.target(i)); err != nil {
				return fmt.Errorf("connect to %s: %w", p.target(i), err)
			}
			return nil
		})
	}
	err := g.Wait()
	for i, fd := range descriptors {
		p.list[i].session = h2wire.NewClient(h2wire.Options{Authority: p.target(i)})
		switch {
		case err == nil:
			err = p.loop.Attach(fd, p.list[i].session)
		case fd >= 0:
			err = errors.Join(err, syscall.Close(fd))
		}
	}
	return err
}

func (p *pool) greeted() bool {
	for i := range p.list {
		if !p.list[i].session.Greeted() {
			return false
		}
	}
	return true
}

// alive reports whether a connection takes calls.
func (p *pool) alive() bool {
	for i := range p.list {
		if p.list[i].session.Ready() {
			return true
		}
	}
	return false
}

// pick gives connections in turn, those first that take calls.
func (p *pool) pick() int32 {
	for range p.list {
		p.turn = (p.turn + 1) % len(p.list)
		if p.list[p.turn].session.Ready() {
			return int32(p.turn)
		}
		p.renew(int32(p.turn))
	}
	return int32(p.turn)
}

// park lets a caller wait for a new connection.
func (p *pool) park(i int32, slot uint32) {
	p.list[i].parked = append(p.list[i].parked, slot)
	p.renew(i)
}

// renew makes a connection anew, in the background.
func (p *pool) renew(i int32) {
	c := &p.list[i]
	if c.dialing || p.ctx.Err() != nil {
		return
	}
	c.dialing = true
	p.dialers.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(p.ctx, dialLimit)
			fd, err := h2wire.Dial(ctx, p.target(int(i)))
			cancel()
			if err == nil {
				if !p.loop.Post(func() { p.replace(c, p.target(int(i)), fd) }) {
					_ = syscall.Close(fd)
				}
				return
			}
			again := time.NewTimer(dialAgain)
			select {
			case <-again.C:
			case <-p.ctx.Done():
				again.Stop()
				return
			}
		}
	})
}

// replace puts a new connection into its place; it runs on the loop. The old one, if it still drains, goes on until the server closes it.
func (p *pool) replace(c *connection, target string, fd int) {
	c.dialing = false
	session := h2wire.NewClient(h2wire.Options{Authority: target})
	if p.loop.Attach(fd, session) != nil {
		return // the next one who needs it tries again
	}
	c.session = session
	p.reconnects++
	parked := c.parked
	c.parked = nil
	for _, slot := range parked {
		p.resume(slot)
	}
}

// stop ends the dialers.
func (p *pool) stop() {
	p.cancel()
	p.dialers.Wait()
}
