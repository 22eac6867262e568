package model

import "sync"

// Meter adds up bytes from several goroutines and reports them one call at a time.
type Meter struct {
	Report func(done, total int64) // nil: nobody is told
	Total  int64                   // set before the first Add

	mu   sync.Mutex
	done int64
}

// Add counts n more bytes.
func (m *Meter) Add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	if m.Report != nil && n > 0 {
		m.Report(m.done, m.Total)
	}
}
