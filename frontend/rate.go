package frontend

import (
	"math"
	"sync/atomic"
	"time"
)

// rateMeter measures what the region does for this frontend: how many rows a second come back, and how long a row spends
// there from its reservation on. Both are means over windows that count less the longer ago they were.
//
// By Little's law pace × stay is the number of rows that were in the region on average. That number tells how today's
// queue compares with the one that the stay was measured at.
type rateMeter struct {
	rows atomic.Int64 // completed, ever
	time atomic.Int64 // sum of their stays in ns

	pace atomic.Int64 // rows a second, busy or not; 0: not known
	stay atomic.Int64 // ns
	full atomic.Int64 // rows a second while calls waited for room, so what the device can do; 0: not known

	// The last time without a device owner, ns: it says nothing about the device and is taken out of every stay.
	awayFrom atomic.Int64
	awayTo   atomic.Int64 // math.MaxInt64: it is still away

	// Of the window; the poll loop's alone.
	opened        bool
	away          bool
	starved       bool // calls waited for room whenever we looked
	start         time.Duration
	rows0, stays0 int64
	lately        decayed // rows and seconds
	stays         decayed // seconds of stay and rows
	busy          decayed // rows and seconds of windows in which calls waited
}

const (
	// rateWindow is long enough to hold several batches of any accelerator and short enough to follow a change of load.
	rateWindow = 25 * time.Millisecond
	// lateHorizon is how fast pace and stay forget.
	lateHorizon = 50 * time.Millisecond
	// busyHorizon is how fast the saturated pace forgets. It is longer than pauses that a busy machine brings: a second in
	// which the device was away, or this process had no CPU, says little about the minute that a call may have.
	busyHorizon = 2 * time.Second
	// trusted is how long calls have to have waited before anything is refused because of it.
	trusted = 100 * time.Millisecond
)

// decayed is a mean of ratios in which a window counts by its weight and, e-fold for each horizon, by its age.
type decayed struct {
	sum, weight float64
}

func (d *decayed) add(sum, weight float64, age, horizon time.Duration) {
	keep := math.Exp(-age.Seconds() / horizon.Seconds())
	d.sum, d.weight = d.sum*keep+sum, d.weight*keep+weight
}

func (d *decayed) mean() int64 { return max(int64(math.Round(d.sum/d.weight)), 1) }

// add counts rows that were reserved at one time and have come back at another.
func (m *rateMeter) add(rows int, reserved, now time.Duration) {
	m.rows.Add(int64(rows))
	m.time.Add(int64(rows) * int64(now-reserved-m.awayWithin(reserved, now)))
}

// awayWithin is how much of [from, to) the device owner was away. Only the last such time is known.
func (m *rateMeter) awayWithin(from, to time.Duration) time.Duration {
	began, ended := time.Duration(m.awayFrom.Load()), time.Duration(m.awayTo.Load())
	return max(min(to, ended)-max(from, began), 0)
}

// observe looks at the clock; starved says whether calls wait for room, away whether the device owner is dead. Only the poll
// loop calls it. A window without rows stays open: the device is away, not slow.
func (m *rateMeter) observe(now time.Duration, starved, away bool) {
	rows, stays := m.rows.Load(), m.time.Load()
	if away || m.away {
		m.leave(now, away)
		m.opened, m.starved, m.start, m.rows0, m.stays0 = true, starved, now, rows, stays
		return
	}
	m.starved = m.starved && starved
	if m.opened {
		span, n := now-m.start, rows-m.rows0
		if span < rateWindow || n == 0 {
			return
		}
		before := m.pace.Load()
		m.lately.add(float64(n), span.Seconds(), span, lateHorizon)
		m.stays.add(float64(stays-m.stays0), float64(n), span, lateHorizon)
		m.pace.Store(m.lately.mean())
		m.stay.Store(m.stays.mean())
		if m.starved {
			m.saturated(float64(n), span, before)
		}
	}
	m.opened, m.starved, m.start, m.rows0, m.stays0 = true, starved, now, rows, stays
}

// leave notes that the device owner is away, or that it is back. An owner that was killed because it hung was away from its
// last rows on, which are in the window that is open.
func (m *rateMeter) leave(now time.Duration, away bool) {
	switch {
	case away && !m.away:
		from := now
		if m.opened {
			from = m.start
		}
		m.awayTo.Store(math.MaxInt64)
		m.awayFrom.Store(int64(from))
	case !away:
		m.awayTo.Store(int64(now))
	}
	m.away = away
}

// saturated counts a window in which calls waited. The first one may be one in which the device was away. So it begins with
// the pace from before, as if that had been seen for a whole horizon; if that is less than the window's own, the load was
// light before, and the window counts as a short one.
func (m *rateMeter) saturated(rows float64, span time.Duration, before int64) {
	switch {
	case m.busy.weight > 0:
		m.busy.add(rows, span.Seconds(), span, busyHorizon)
	case float64(before) >= rows/span.Seconds():
		seen := busyHorizon.Seconds()
		m.busy = decayed{sum: float64(before)*seen + rows, weight: seen + span.Seconds()}
	default:
		m.busy = decayed{sum: rows / span.Seconds() * rateWindow.Seconds(), weight: rateWindow.Seconds()}
	}
	if m.busy.weight >= trusted.Seconds() {
		m.full.Store(m.busy.mean())
	}
}

// maxGrowth bounds how much longer than lately a stay is expected to be because more rows are in the region than lately:
// a larger batch costs less a row, so a sudden burst does not take in proportion. What goes beyond shows in the next window.
const maxGrowth = 2

// wait estimates how long a row stays in a region that holds so many rows of this frontend.
func (m *rateMeter) wait(inRegion int64) time.Duration {
	pace, stay := float64(m.pace.Load()), float64(m.stay.Load())
	if pace == 0 || stay == 0 {
		return 0
	}
	usual := pace * stay / float64(time.Second)
	return time.Duration(stay * min(float64(inRegion)/max(usual, 1), maxGrowth))
}

// after is the time in which so many rows come back, if the frontend is saturated.
func (m *rateMeter) after(rows int64) time.Duration {
	full := float64(m.full.Load())
	if full == 0 {
		return 0
	}
	return time.Duration(float64(rows) / full * float64(time.Second))
}
