package frontend

import (
	"time"

	"rankd/internal/stats"
	"rankd/shmring"
)

// deliver takes finished chunks from the region and lets the transports write the replies of one batch together.
// It returns how many.
func (c *Core) deliver() int {
	n := c.ring.Poll()
	if n == 0 {
		return 0
	}
	for _, f := range c.batchEnd {
		f()
	}
	return n
}

// pollLoop waits for the frontend's bell: scores, room, or a change of state. Every wait is bounded, since a peer may die
// between its store and its ring.
func (c *Core) pollLoop() {
	defer c.done.Done()
	rung := true
	for {
		delivered := c.deliver()
		if !rung {
			c.wokenByTimer(delivered)
		}
		starved := c.starved()
		owner := c.ring.OwnerState()
		c.rate.observe(c.now(), starved, owner == shmring.OwnerRestarting || owner == shmring.OwnerBackoff)
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
		if rung = c.ring.Wait(shmring.MaxPark); rung {
			c.meter.block.Inc(stats.WakesBell)
		}
	}
}

// lateRing is how much later than its store an owner's ring may come, if its process loses the processor in between.
const lateRing = 50 * time.Millisecond

// wokenByTimer counts a wait that ended by time. If there were scores to deliver the owner has stored them and, unless the
// wake-up was lost, rings now.
func (c *Core) wokenByTimer(delivered int) {
	switch {
	case delivered == 0:
		c.meter.block.Inc(stats.WakesTimer)
	case c.ring.Wait(lateRing):
		c.meter.block.Inc(stats.WakesBell)
	default:
		c.meter.block.Inc(stats.WakesTimerWithWork)
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
