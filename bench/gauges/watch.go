package gauges

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rankd/bench/monitor"
)

// Sample is one moment.
type Sample struct {
	At          float64 `json:"at_s"` // since the start of the watch
	PendingRows float64 `json:"pending_rows"`
	Calls       float64 `json:"calls_in_flight"`
	ReturnBytes float64 `json:"return_bytes"` // replies not yet taken by clients
	Stalls      float64 `json:"return_stalls_total"`
	Restarts    float64 `json:"restarts_total"` // of frontends and of the device owner, none of which should be
	RSS         int64   `json:"rss_bytes"`
}

const (
	pendingRows = "rankd_frontend_pending_rows"
	calls       = "rankd_in_flight_calls"
	returnBytes = "rankd_return_bytes"
	stalls      = "rankd_return_stalls_total"
	frontends   = "rankd_frontend_restarts_total"
	owners      = "rankd_owner_restarts_total"
)

// Watch samples a server.
type Watch struct {
	address string
	tree    *monitor.Tree
	began   time.Time
	stop    context.CancelFunc
	stopped sync.WaitGroup
	samples []Sample
	missed  int
}

// Start begins to sample the server with that status page and that process.
func Start(address string, pid int, every time.Duration) (*Watch, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{address: address, tree: monitor.NewTree(pid), began: time.Now(), stop: cancel}
	if err := w.sample(ctx, w.began); err != nil {
		cancel()
		return nil, fmt.Errorf("watch server: %w", err)
	}
	w.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if w.sample(ctx, now) != nil {
					w.missed++
				}
			}
		}
	})
	return w, nil
}

func (w *Watch) sample(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	values, err := Read(ctx, w.address, pendingRows, calls, returnBytes, stalls, frontends, owners)
	if err != nil {
		return err
	}
	list, err := w.tree.Read()
	if err != nil {
		return err
	}
	s := Sample{
		At: now.Sub(w.began).Seconds(), PendingRows: values[pendingRows], Calls: values[calls], ReturnBytes: values[returnBytes], Stalls: values[stalls],
		Restarts: values[frontends] + values[owners],
	}
	for _, p := range list {
		s.RSS += p.RSS
	}
	w.samples = append(w.samples, s)
	return nil
}

// Stop ends the watch and returns the samples, and how many moments have none (I1).
func (w *Watch) Stop() (samples []Sample, missed int) {
	w.stop()
	w.stopped.Wait()
	return w.samples, w.missed
}

// Max is the largest value of each field.
func Max(list []Sample) Sample {
	var m Sample
	for _, s := range list {
		m.PendingRows, m.Calls = max(m.PendingRows, s.PendingRows), max(m.Calls, s.Calls)
		m.ReturnBytes, m.Stalls, m.RSS = max(m.ReturnBytes, s.ReturnBytes), max(m.Stalls, s.Stalls), max(m.RSS, s.RSS)
		m.Restarts = max(m.Restarts, s.Restarts)
	}
	return m
}
