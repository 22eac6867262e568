package frontend

import (
	"sync/atomic"
	"time"
)

// rateMeter measures what the region does for this frontend: how many rows a second come back, and how long a row spends
// there from its reservation on. Both are taken over windows and smoothed.
//
// By Little's law pace × stay is the number of rows that were in the region on average. That number tells how today's
// queue compares with the one that the stay was measured at.
type rateMeter struct {
	rows atomic.Int64 // completed, ever
	time atomic.Int64 // sum of their stays in ns

	pace atomic.Int64 // rows a second, busy or not; 0: not known
	stay atomic.Int64 // ns
	full atomic.Int64 // rows a second while calls waited for room, so what the device can do; 0: not known

	// Of the window; the poll loop's alone.
	opened        bool
	starved       bool // calls waited for room whenever we looked
	start         time.Duration
	rows0, stays0 int64
}

// rateWindow is long enough to hold several batches of any accelerator and short enough to follow a change of load.
const rateWindow = 25 * time.Millisecond

// add counts rows that came back after the given stay.
func (m *rateMeter) add(rows int, stay time.Duration) {
	m.rows.Add(int64(rows))
	m.time.Add(int64(rows) * int64(stay))
}

// observe looks at the clock; starved says whether calls wait for room. Only the poll loop calls it. A window without rows
// stays open: the device is away, not slow.
func (m *rateMeter) observe(now time.Duration, starved bool) {
	rows, stays := m.rows.Load(), m.time.Load()
	m.starved = m.starved && starved
	if m.opened {
		span, n := now-m.start, rows-m.rows0
		if span < rateWindow || n == 0 {
			return
		}
		pace, lately := int64(float64(n)/span.Seconds()), m.pace.Load()
		smooth(&m.pace, pace)
		smooth(&m.stay, (stays-m.stays0)/n)
		if m.starved {
			// The first window in which calls wait may be one in which the device was away. Taken by itself it would say that
			// the device is slow, and calls would be refused that are served in time.
			m.full.CompareAndSwap(0, lately)
			smooth(&m.full, pace)
		}
	}
	m.opened, m.starved, m.start, m.rows0, m.stays0 = true, starved, now, rows, stays
}

func smooth(word *atomic.Int64, v int64) {
	if old := word.Load(); old != 0 {
		v = (old + v) / 2
	}
	word.Store(max(v, 1))
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
