package frontend

import (
	"time"

	"rankd/shmring"
)

// deliver takes finished chunks from the region and lets the transports write the replies of one batch together.
func (c *Core) deliver() {
	if c.ring.Poll() == 0 {
		return
	}
	for _, f := range c.batchEnd {
		f()
	}
}

// pollLoop waits for the frontend's bell: scores, room, or a change of state. Every wait is bounded, since a peer may die
// between its store and its ring.
func (c *Core) pollLoop() {
	defer c.done.Done()
	for {
		c.deliver()
		starved := c.starved()
		c.rate.observe(c.now(), starved)
		if starved {
			c.space.open()
		}
		c.meter.gauges(c.ring.PendingRows(), c.open.Load(), c.draining.Load())
		for _, f := range c.onState {
			f(c.Serving())
		}
		select {
		case <-c.stop:
			return
		default:
		}
		c.ring.Wait(shmring.MaxPark)
	}
}

// sweepTick is the resolution of deadlines.
const sweepTick = 5 * time.Millisecond

// sweepLoop ends calls at their deadlines, and all calls while the owner is dead and backing off for longer than the
// grace. It ticks only while calls are open.
func (c *Core) sweepLoop() {
	defer c.done.Done()
	tick := time.NewTicker(sweepTick)
	defer tick.Stop()
	var backoff time.Duration // since when the owner is seen backing off; 0: it is not
	var due []timerRef
	for {
		if c.wheel.empty() {
			tick.Stop()
			select {
			case <-c.stop:
				return
			case <-c.wheel.kick:
			}
			tick.Reset(sweepTick)
		}
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		now := c.now()
		due = c.wheel.expired(due[:0], now)
		for _, d := range due {
			d.call.fail(d.gen, errDeadline)
		}
		clear(due)
		if c.ring.OwnerState() != shmring.OwnerBackoff {
			backoff = 0
		} else if backoff == 0 {
			backoff = now
		} else if now-backoff >= c.cfg.RestartGrace {
			c.failAll(errRestarting)
		}
	}
}

// failAll ends every open call.
func (c *Core) failAll(err *Error) {
	for _, d := range c.wheel.all(nil) {
		d.call.fail(d.gen, err)
	}
}
