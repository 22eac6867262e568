package frontend

import (
	"sync/atomic"
	"time"
)

// rateMeter measures how many rows a second come back while the frontend is saturated, that is while calls wait for room
// during the whole of a window. Idle time would make the pace look lower than it is.
type rateMeter struct {
	rows atomic.Int64 // completed, ever
	pace atomic.Int64 // rows a second, smoothed; 0: not known

	// Of the window; the poll loop's alone.
	open  bool
	start time.Duration
	base  int64 // rows at the start
}

// rateWindow is long enough to hold several batches of any accelerator and short enough to follow a change of load.
const rateWindow = 50 * time.Millisecond

// add counts rows that came back.
func (m *rateMeter) add(rows int) { m.rows.Add(int64(rows)) }

// observe looks at the clock; saturated says whether calls wait for room right now. Only the poll loop calls it.
func (m *rateMeter) observe(now time.Duration, saturated bool) {
	rows := m.rows.Load()
	if !saturated || !m.open {
		m.open, m.start, m.base = saturated, now, rows
		return
	}
	span := now - m.start
	if span < rateWindow || rows == m.base { // a window without rows stays open: the device is away, not slow
		return
	}
	pace := int64(float64(rows-m.base) / span.Seconds())
	if old := m.pace.Load(); old != 0 {
		pace = (3*old + pace) / 4
	}
	m.pace.Store(max(pace, 1))
	m.start, m.base = now, rows
}

// rowsPerSecond is the smoothed pace, or 0 when the frontend was never saturated.
func (m *rateMeter) rowsPerSecond() float64 { return float64(m.pace.Load()) }
