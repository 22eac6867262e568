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
	if wait := c.estimate(rows); wait > until-now {
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

// estimate says how long a request of so many rows would take to be scored, or 0 when there is no reason to expect a wait.
//
// It is based on the pace of this frontend while calls were waiting for room, the only time when the pace says what the
// server can do; so without a waiting call there is no estimate. Chunks of waiting calls take turns: ahead of the request
// are the rows in the region, and of each waiting call at most as many rows as the request has itself.
func (c *Core) estimate(rows int64) time.Duration {
	calls, waiting := c.queue.load()
	if calls == 0 || !c.starved() {
		return 0
	}
	pace := c.rate.rowsPerSecond()
	if pace == 0 {
		return 0
	}
	inRegion := max(c.ring.PendingRows()-waiting, 0)
	chunk := int64(c.cfg.ChunkRows)
	turns := (rows + chunk - 1) / chunk * chunk
	ahead := inRegion + min(waiting, calls*turns)
	return time.Duration(float64(ahead+rows) / pace * float64(time.Second))
}
