package tables

import (
	"sync/atomic"
	"time"
)

// meter adds up what the loader does and reports it from one goroutine.
type meter struct {
	allocated, copied, checked atomic.Int64 // bytes
	tables, files              int64        // in all: bytes of tables, bytes of files
	report                     func(done, total int64)
	last                       int64
	quit, ended                chan struct{}
}

const reportEvery = 100 * time.Millisecond

// startMeter begins reporting; report may be nil. stop ends it.
func startMeter(report func(done, total int64), tables, files int64) *meter {
	m := &meter{tables: tables, files: max(1, files), report: report, quit: make(chan struct{}), ended: make(chan struct{})}
	if report == nil {
		close(m.ended)
		return m
	}
	go m.run()
	return m
}

func (m *meter) run() {
	defer close(m.ended)
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-tick.C:
			if done := m.done(); done > m.last {
				m.last = done
				m.report(done, m.tables)
			}
		}
	}
}

// done weighs the three parts of the work alike.
func (m *meter) done() int64 {
	checked := int64(float64(m.checked.Load()) / float64(m.files) * float64(m.tables))
	done := (min(m.allocated.Load(), m.tables) + m.copied.Load() + checked) / 3
	return min(done, m.tables)
}

// stop ends reporting, after a last report of everything where the load succeeded.
func (m *meter) stop(complete bool) {
	close(m.quit)
	<-m.ended
	if complete && m.report != nil {
		m.report(m.tables, m.tables)
	}
}
