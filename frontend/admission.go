package frontend

import (
	"time"

	"rankd/shmring"
)

// admitBytes decides on a call before its request is decoded: what the frontend's state, the bytes it holds and the
// deadline alone can say. On success the bytes are counted and giveBackBytes must follow.
func (c *Core) admitBytes(size int64, now, until time.Duration) *Error {
	switch {
	case c.draining.Load() || c.ring.Draining():
		return errDraining
	case c.ring.OwnerState() == shmring.OwnerBackoff:
		return errRestarting
	case until <= now:
		return errDeadline
	case size > int64(c.cfg.MaxRequestBytes):
		return errTooManyBytes(size, int64(c.cfg.MaxRequestBytes))
	}
	limit := int64(c.cfg.InflightBytes)
	if held := c.inflight.Add(size); held > limit {
		c.inflight.Add(-size)
		return full(ReasonFrontendFull, "--max-inflight-request-bytes", "request bytes", held-size, size, limit)
	}
	return nil
}

func (c *Core) giveBackBytes(size int64) { c.inflight.Add(-size) }

// admitRows decides on a call whose rows are known, before any lookup. On success the rows are pending and giveBackRows
// must follow.
//
// Rows are added before they are compared with the caps, so the caps are never passed by rows that stay; two requests that
// arrive together at the cap may both be refused though one of them would have fitted.
func (c *Core) admitRows(k *call, now, until time.Duration) *Error {
	rows := int64(k.rows) // at most --max-request-rows: the binder has seen to that
	if wait := c.estimate(rows); wait+wait/slack > until-now {
		return errUnreachable(wait, until-now)
	}
	limit := int64(c.cfg.PendingRows)
	if pending := c.ring.AddPendingRows(k.rows); pending > limit {
		c.giveBackRows(k.rows)
		return full(ReasonFrontendFull, "--frontend-pending-rows", "rows", pending-rows, rows, limit)
	}
	if total, limit := c.ring.TotalPendingRows(), int64(c.cfg.ServerPendingRows); total > limit {
		c.giveBackRows(k.rows)
		return full(ReasonServerFull, "--server-pending-rows", "rows", total-rows, rows, limit)
	}
	return nil
}

// giveBackRows takes rows out of the pending count: they were scored, or will never be.
func (c *Core) giveBackRows(rows int) {
	if rows != 0 {
		c.ring.AddPendingRows(-rows)
	}
}

// slack: a call is admitted only if half more than the estimated wait is left. Without it an overloaded server would
// settle where every call just meets its deadline or just misses it; and the way to the server has taken some of the time that
// the client thinks is left. At four times the capacity, with deadlines of three times the stay, a quarter more let 14 % of the
// work be done in vain, half more 5 %.
const slack = 2

// estimate says how long a request of so many rows would take to be scored.
//
// Without calls that wait for room it is the time that rows spent in the region lately, in proportion to what the region
// holds now; on an idle frontend that is 0. With such calls the frontend is saturated, and its pace is what the device can
// do: to the stay in the region comes the time of the rows that go in before the request's last one. Chunks of waiting calls
// take turns, so those are, of each waiting call, at most as many rows as the request has itself.
func (c *Core) estimate(rows int64) time.Duration {
	calls, waiting := c.queue.load()
	wait := c.rate.wait(max(c.ring.PendingRows()-waiting, 0))
	if calls > 0 && c.starved() {
		chunk := int64(c.cfg.ChunkRows)
		turns := (rows + chunk - 1) / chunk * chunk
		wait += c.rate.after(rows + min(waiting, calls*turns))
	}
	return wait
}
