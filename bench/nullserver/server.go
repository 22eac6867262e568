package nullserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"rankd/internal/h2wire"
)

// MaxReply is the largest message of an answer: it and its prefix must fit one frame.
const MaxReply = h2wire.DefaultMaxFrame - h2wire.PrefixBytes

// Serve answers the connections of l on some loops until ctx ends. It closes l.
func Serve(ctx context.Context, l net.Listener, loops, replyBytes int) error {
	if loops < 1 || replyBytes < 0 || replyBytes > MaxReply {
		return errors.Join(fmt.Errorf("serve: got %d loops and replies of %d bytes, want at least 1 and at most %d", loops, replyBytes, MaxReply), l.Close())
	}
	var list []*h2wire.Loop
	for range loops {
		loop, err := h2wire.NewLoop()
		if err != nil {
			for _, other := range list {
				err = errors.Join(err, other.Close())
			}
			return errors.Join(err, l.Close())
		}
		list = append(list, loop)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var g sync.WaitGroup
	errs := make([]error, loops)
	for i, loop := range list {
		g.Go(func() { errs[i] = run(ctx, loop) })
	}
	err := accept(ctx, l, list, replyBytes)
	g.Wait()
	return errors.Join(append(errs, err)...)
}

// run turns one loop until ctx ends.
func run(ctx context.Context, loop *h2wire.Loop) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wake := context.AfterFunc(ctx, func() { loop.Post(func() {}) })
	defer wake()
	for ctx.Err() == nil {
		if err := loop.Turn(time.Second); err != nil {
			return errors.Join(err, loop.Close())
		}
	}
	return loop.Close()
}

func accept(ctx context.Context, l net.Listener, loops []*h2wire.Loop, replyBytes int) error {
	for turn := 0; ; turn++ {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		fd, err := h2wire.Detach(conn)
		if err != nil {
			return err
		}
		loop := loops[turn%len(loops)]
		posted := loop.Post(func() {
			_ = loop.Attach(fd, newSession(replyBytes)) // it has closed the connection, which the client sees
		})
		if !posted {
			return nil
		}
	}
}
