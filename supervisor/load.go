package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"rankd/internal/config"
)

// load loads the tables. stopped means that the server was asked to stop meanwhile; then nothing is left of the load.
func (l *loop) load() (stopped bool, err error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	type result struct {
		tables *Tables
		err    error
	}
	loaded := make(chan result, 1)
	go func() {
		t, err := l.deps.LoadTables(ctx, l.instance, func(done, total int64) {
			l.progress.done.Store(done)
			l.progress.total.Store(total)
		})
		loaded <- result{t, err}
	}()
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	told, last := time.Time{}, int64(-1)
	for {
		select {
		case r := <-loaded:
			return l.loaded(r.tables, r.err, stopped)
		case sig := <-l.signals:
			if l.asked.again(sig.String(), time.Now()) {
				continue
			}
			if stopped { // the source may be stuck in the kernel; the next start removes what is half loaded
				l.log.Warn("asked again to stop, leaving what is half loaded", slog.String("by", sig.String()))
				return true, ErrCut
			}
			l.log.Info("asked to stop while loading", slog.String("by", sig.String()))
			stopped = true
			cancel()
		case <-tick.C:
		}
		now := time.Now()
		if done := l.progress.done.Load(); done != last && now.Sub(told) > time.Second { // only real progress earns more time
			told, last = now, done
			l.notify.progress(loadingStep, l.loadingText())
		}
		l.notify.feed(now)
		l.publish(now)
	}
}

func (l *loop) loaded(t *Tables, err error, stopped bool) (bool, error) {
	stopped = stopped || l.ctx.Err() != nil
	if err != nil {
		if stopped && errors.Is(err, context.Canceled) {
			return true, nil
		}
		return stopped, err // it says that tables were to be loaded
	}
	l.tables = t
	// An older model's segment, and one that a killed server left half written.
	l.removeLeftovers(func(path string) bool { return slices.Contains(t.paths(), path) })
	l.log.Info("tables are loaded", slog.Int64("bytes", t.Memory.Bytes), slog.String("pages", t.Memory.Pages),
		slog.Bool("attached", t.Memory.Attached), slog.Int("copies", 1+len(t.More)), seconds("after", time.Since(l.startedAt)))
	return stopped, nil
}

// watchTables looks whether the tables are still what was loaded, and has them loaded again if they are not: a frontend that
// reads what was cut off dies, and so would its successors.
func (l *loop) watchTables(now time.Time) {
	if l.tables.Check == nil {
		return
	}
	if err := l.tables.Check(); err != nil {
		l.spoilt = true
		l.beginRebuild(fmt.Sprintf("tables are damaged, loading them again: %v", err), now)
	}
}

// discard gives up damaged tables and the region. Every child is gone by now.
func (l *loop) discard() error {
	region, tables := l.region, l.tables
	l.region, l.tables, l.spoilt = nil, nil, false
	l.progress.done.Store(0)
	l.progress.total.Store(0)
	err := region.Close()
	if tables.Remove != nil {
		if e := tables.Remove(); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, tables.Close()); err != nil {
		return fmt.Errorf("discard tables: %w", err)
	}
	l.writeState()
	return nil
}

func (l *loop) loadingText() string {
	done, total := l.progress.done.Load(), l.progress.total.Load()
	if total == 0 {
		return "loading tables"
	}
	return fmt.Sprintf("loading tables: %d %% of %s", 100*done/total, config.Bytes(total).Human())
}
