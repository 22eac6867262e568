package monitor

import (
	"fmt"
	"sync"
	"time"
)

// Interval is how often a monitor samples unless told otherwise.
const Interval = 200 * time.Millisecond

// Sample is one look at a tree.
type Sample struct {
	At        float64   `json:"at_s"` // since the start of the monitor
	CPU       float64   `json:"cpu_s"`
	RSS       int64     `json:"rss_bytes"` // sum over the processes; shared pages count in each
	Processes []Process `json:"processes"`
}

// Report is everything that a monitor has seen.
type Report struct {
	PID     int      `json:"pid"`
	Began   string   `json:"began"` // RFC 3339
	Samples []Sample `json:"samples"`
	Memory  []Memory `json:"memory"`
	Ended   string   `json:"ended,omitempty"` // why there are no more samples
}

// PeakMemory is the largest of the exact readings, in bytes; 0 if there is none.
func (r *Report) PeakMemory() int64 {
	peak := int64(0)
	for _, m := range r.Memory {
		peak = max(peak, m.Bytes())
	}
	return peak
}

// Monitor samples a tree.
type Monitor struct {
	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once

	mu     sync.Mutex // guards what follows
	tree   *Tree
	report Report
	began  time.Time
}

// Start begins to sample a process and its descendants.
func Start(pid int, every time.Duration) (*Monitor, error) {
	if every <= 0 {
		return nil, fmt.Errorf("monitor process %d: interval: got %v, want more than 0", pid, every)
	}
	now := time.Now()
	m := &Monitor{
		stop: make(chan struct{}), tree: NewTree(pid), began: now,
		report: Report{PID: pid, Began: now.Format(time.RFC3339Nano)},
	}
	if err := m.sample(now); err != nil {
		return nil, fmt.Errorf("monitor process %d: %w", pid, err)
	}
	m.stopped.Go(func() { m.run(every) })
	return m, nil
}

func (m *Monitor) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case now := <-tick.C:
			if err := m.sample(now); err != nil {
				m.mu.Lock()
				m.report.Ended = err.Error()
				m.mu.Unlock()
				return
			}
		}
	}
}

func (m *Monitor) sample(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cpu, err := m.tree.CPU()
	if err != nil {
		return err
	}
	list, err := m.tree.Read()
	if err != nil {
		return err
	}
	s := Sample{At: now.Sub(m.began).Seconds(), CPU: cpu, Processes: list}
	for _, p := range list {
		s.RSS += p.RSS
	}
	m.report.Samples = append(m.report.Samples, s)
	return nil
}

// CPU returns the CPU seconds of the tree so far.
func (m *Monitor) CPU() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tree.CPU()
}

// Memory reads the memory of the tree now and keeps it in the report.
func (m *Monitor) Memory(at string) (Memory, error) {
	r, err := ReadMemory(m.tree.root, at)
	if err != nil {
		return r, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report.Memory = append(m.report.Memory, r)
	return r, nil
}

// Stop ends the sampling and returns the report.
func (m *Monitor) Stop() Report {
	m.once.Do(func() { close(m.stop) })
	m.stopped.Wait()
	return m.report
}
