package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"rankd/shmring"
)

type phase string

const (
	phaseLoading    phase = "loading tables"
	phaseStarting   phase = "starting"
	phaseServing    phase = "serving"
	phaseRebuilding phase = "rebuilding the region"
	phaseDraining   phase = "draining"
	phaseStopped    phase = "stopped"
)

const (
	idleTick     = 100 * time.Millisecond // kill requests, hang watch, watchdog
	recoveryTick = 5 * time.Millisecond   // while a successor waits for the ring
)

// loop owns the places. Its fields belong to the goroutine that runs it, but for status.
type loop struct {
	*server
	ctx    context.Context
	events chan event

	phase      phase
	written    phase // that of the state file; empty: there is none yet
	region     *Region
	owner      *place
	frontends  []*place
	ownerState shmring.OwnerState
	watch      hangWatch
	rebuilds   backoff
	everServed bool
	spoilt     bool // the tables are to be loaded again once every child is gone

	refuseAt time.Time // new calls are refused from then on; zero: they are, or there is no drain

	drainUntil time.Time // when frontends are killed
	ownerUntil time.Time // when the owner is killed; zero: it was not asked to stop
	asked      request   // the last one to stop
	cut        bool      // a process was killed in the drain
	err        error     // why the server ends, nil if it was asked to

	briefing briefing
	overload overload
	meter    meter

	relays   sync.WaitGroup
	progress loadProgress
}

// loadProgress is written by the loader's goroutines.
type loadProgress struct{ done, total atomic.Int64 }

func newLoop(ctx context.Context, s *server) *loop {
	l := &loop{server: s, ctx: ctx, events: make(chan event, 256), phase: phaseLoading}
	b := backoff{first: s.cfg.BackoffFirst, limit: s.cfg.BackoffLimit}
	l.rebuilds, l.watch.limit = b, s.cfg.DeviceHang
	l.owner = &place{role: roleOwner, backoff: b}
	for i := range s.cfg.Frontends {
		l.frontends = append(l.frontends, &place{role: roleFrontend, index: i, backoff: b})
	}
	return l
}

func (l *loop) ring() Ring { return l.region.Ring }

func (l *loop) relay(p *process, output *os.File) {
	l.relays.Go(func() {
		defer close(p.relayed)
		relayLogs(l.log, p, output)
	})
}

// awaitRelays waits until the last words of the children are passed on. A process that a child has left behind may hold its
// output open, so the wait is bounded.
func (l *loop) awaitRelays() {
	done := make(chan struct{})
	go func() {
		l.relays.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(exitGrace):
		l.log.Warn("output of a child is still open, not waiting for it")
	}
}

// run fills the places and keeps them filled until the server has stopped. Preconditions: tables are loaded.
func (l *loop) run() error {
	if err := l.makeRegion(); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := l.ctx.Done()
	for {
		now := time.Now()
		l.act(now)
		l.publish(now)
		if l.phase == phaseStopped {
			break
		}
		if l.phase == phaseLoading {
			return errSpoilt
		}
		timer.Reset(l.tick(now))
		select {
		case e := <-l.events:
			l.handle(e, time.Now())
		case sig := <-l.signals:
			l.stopRequested(sig.String(), time.Now())
		case <-done:
			done = nil
			l.stopRequested("context", time.Now())
		case <-timer.C:
		}
	}
	l.awaitRelays()
	if l.err == nil && l.cut {
		l.err = ErrCut
	}
	return l.err
}

func (l *loop) tick(now time.Time) time.Duration {
	wait := idleTick
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		if p.recovering {
			return recoveryTick
		}
		if p.process == nil && p.startAt.After(now) {
			wait = min(wait, p.startAt.Sub(now))
		}
	}
	return wait
}

// act does what the present state asks for.
func (l *loop) act(now time.Time) {
	l.look(now)
	switch l.phase {
	case phaseStarting, phaseServing:
		l.fillDue(now)
		l.watchTables(now)
	case phaseRebuilding:
		l.continueRebuild(now)
	case phaseDraining:
		l.continueDrain(now)
	}
	l.feedWatchdog(now)
	l.tellManager(now)
	l.sample(now)
}

func (l *loop) fillDue(now time.Time) {
	if l.owner.due(now) {
		l.fill(l.owner, now)
	}
	if l.phase == phaseStarting && !l.owner.ready {
		return // frontends warm themselves through to the device
	}
	if l.phase == phaseStarting {
		if err := l.listeners.listen(); err != nil {
			l.drain(err, now)
			return
		}
	}
	all := true
	for _, p := range l.frontends {
		if p.due(now) {
			l.fill(p, now)
		}
		all = all && p.ready
	}
	if l.phase == phaseStarting && all {
		l.phase, l.everServed = phaseServing, true
		l.rebuilds.ready()
		l.log.Info("server is ready", slog.String("listen", l.address), seconds("after", now.Sub(l.startedAt)))
		l.publish(now) // first: whoever waits for the message asks the page next
		l.notify.send("READY=1", "STATUS="+l.inWords(now))
	}
}

// makeRegion makes a fresh region; bytes of an old one are never used again.
func (l *loop) makeRegion() error {
	r, err := l.deps.NewRegion(l.ctx, l.bells)
	if err != nil {
		return fmt.Errorf("make ring region: %w", err)
	}
	l.region, l.phase = r, phaseStarting
	l.setOwnerState(shmring.OwnerStarting)
	for _, p := range l.frontends {
		p.recovering = false
	}
	l.writeState()
	return nil
}

// beginRebuild kills every child, since all of them map memory that is not to be trusted any more.
func (l *loop) beginRebuild(why string, now time.Time) {
	wait := l.rebuilds.died(false)
	l.log.Error("shared memory is damaged, making it anew", slog.String("why", why), seconds("next_start_in", wait))
	l.phase = phaseRebuilding
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		if p.process != nil {
			p.process.kill("shared memory is made anew")
		}
		p.startAt = now.Add(wait)
	}
}

func (l *loop) continueRebuild(now time.Time) {
	if running(l.frontends)+running([]*place{l.owner}) > 0 {
		return
	}
	if l.spoilt {
		l.phase = phaseLoading
		return
	}
	old := l.region
	if err := l.makeRegion(); err != nil {
		l.drain(err, now)
		return
	}
	if err := old.Close(); err != nil {
		l.log.Warn("old region cannot be closed", slog.Any("error", err))
	}
}

// feedWatchdog feeds the service manager's watchdog while the owner's loop turns or an owner is being started.
func (l *loop) feedWatchdog(now time.Time) {
	if !l.owner.ready || l.watch.beating(now, time.Second) {
		l.notify.feed(now)
	}
}

// stopRequested drains; the second time it ends everything at once (I7).
func (l *loop) stopRequested(by string, now time.Time) {
	if l.asked.again(by, now) {
		return
	}
	if l.phase != phaseDraining {
		l.log.Info("asked to stop, draining", slog.String("by", by), seconds("limit", l.cfg.DrainTimeout))
		l.drain(nil, now)
		return
	}
	l.log.Warn("asked again to stop, ending at once", slog.String("by", by))
	l.killAll("asked twice to stop")
}

func (l *loop) killAll(why string) {
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		if p.process != nil {
			p.process.kill(why)
			l.cut = true
		}
	}
}
