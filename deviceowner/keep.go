package deviceowner

import (
	"context"
	"log/slog"
	"math/bits"
	"time"

	"rankd/deviceowner/device"
	"rankd/internal/stats"
)

// keeper is what the loop looks after now and then, apart from batches.
type keeper struct {
	looked     time.Time
	stragglers uint64 // frontends whose end was asked for and that still hold something up
	late       uint64 // compilations after the start that are counted already
	logged     time.Time
	unlogged   int // device errors since then
}

// keep looks for frontends that hold a batch up, a few times within the time that they have, and for compilations that
// should not have been.
func (l *Loop) keep() {
	k := &l.keeper
	if l.clock.Sub(k.looked) <= l.straggle/8 {
		return
	}
	k.looked = l.clock
	now := l.ring.Stragglers(l.straggle)
	l.counters.Add(stats.StragglerRequests, uint64(bits.OnesCount64(now&^k.stragglers)))
	k.stragglers = now
	if c, ok := l.exec.(device.Counter); ok {
		_, late := c.Compiles()
		l.counters.Add(stats.CompilesAfter, late-k.late)
		k.late = late
	}
}

// errorLogPause is the least time between two log lines about device errors.
const errorLogPause = time.Second

// deviceError counts a launch that ended with an error and logs it, unless one was logged a moment ago.
func (l *Loop) deviceError(err error, p *launch) {
	l.counters.Inc(stats.DeviceErrors)
	k, now := &l.keeper, l.now()
	if now.Sub(k.logged) < errorLogPause {
		k.unlogged++
		return
	}
	l.log.LogAttrs(context.Background(), slog.LevelError, "batch failed on the device", slog.Any("error", err),
		slog.Int("rows", p.batch.Rows), slog.Bool("alone", p.alone), slog.Int("others_since_last_line", k.unlogged))
	k.logged, k.unlogged = now, 0
}
