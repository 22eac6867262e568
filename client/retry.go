package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The wait before an attempt on another connection doubles from the first to the last of these, so that five retries
// bridge the restart of a frontend.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
)

// reconnect keeps the library's own wait between two connections within that of the attempts.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: firstWait / 2, Multiplier: 2, Jitter: 0.2, MaxDelay: lastWait / 2},
	MinConnectTimeout: 5 * time.Second,
}

// connect makes a connection and remembers that it could.
func (c *Client) connect(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		c.refused.Store(&err)
		return nil, err
	}
	c.reached.Store(true)
	return conn, nil
}

// attempts calls once until it succeeds, fails for good, or has failed Options.Retries+1 times. Each attempt takes the next
// connection and has a deadline of its own.
func (c *Client) attempts(ctx context.Context, once func(context.Context, *grpc.ClientConn) error) error {
	for attempt := 0; ; attempt++ {
		err := c.bounded(ctx, once)
		if err == nil {
			return nil
		}
		if status.Code(err) == codes.Unavailable && !c.reached.Load() {
			if why := c.refused.Load(); why != nil { // the library wraps it in layers of its own
				err = *why
			}
			return fmt.Errorf("%w at %s: %w", ErrNoServer, c.target, err)
		}
		wait := retryDelay(err, attempt)
		if wait == 0 || attempt >= c.options.Retries {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (c *Client) bounded(ctx context.Context, once func(context.Context, *grpc.ClientConn) error) error {
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	return once(ctx, c.conn())
}

// retryDelay is how long to wait after a failed attempt, counted from 0, before the next; 0 if another would not help.
func retryDelay(err error, attempt int) time.Duration {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	if st.Code() == codes.Unavailable { // the connection broke, so whoever was behind it is gone; scoring has no side effects
		return min(firstWait<<min(attempt, 10), lastWait)
	}
	return 0
}
