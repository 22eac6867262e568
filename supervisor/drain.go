package supervisor

import (
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// exitGrace is what a process may take beyond the drain to exit: frontends cut calls at the bound themselves.
	exitGrace = time.Second
	// ownerGrace is the least that the owner gets to stop, whatever the frontends have used up.
	ownerGrace = 2 * time.Second
)

// drain begins to end the server; err is why, nil if it was asked to. Frontends refuse new requests, finish what they have
// and exit; the owner serves them until the last is gone.
func (l *loop) drain(err error, now time.Time) {
	if l.phase == phaseDraining {
		return
	}
	if err != nil {
		l.log.Error("server ends", slog.Any("error", err))
	}
	l.phase, l.err = phaseDraining, err
	l.refuseAt = now.Add(l.cfg.DrainDelay)
	l.drainUntil = l.refuseAt.Add(l.cfg.DrainTimeout + exitGrace)
	l.notify.send("STOPPING=1", "STATUS="+l.inWords(now), extend(l.drainUntil.Sub(now)+ownerGrace+stopMargin))
	signalAll(l.frontends, unix.SIGTERM) // each says NOT_SERVING at once, and goes on to take calls for the delay
	l.refuse(now)
}

// refuse tells the frontends through the ring, once the delay is over, that new calls are refused.
func (l *loop) refuse(now time.Time) {
	if !l.refuseAt.IsZero() && !now.Before(l.refuseAt) {
		l.refuseAt = time.Time{}
		l.ring().SetDraining()
	}
}

// continueDrain takes the next step of the drain, if it is time for one.
func (l *loop) continueDrain(now time.Time) {
	l.refuse(now)
	owner := []*place{l.owner}
	switch {
	case running(l.frontends) > 0:
		if now.After(l.drainUntil) {
			l.overdue(l.frontends)
		} else if l.owner.due(now) && l.everServed {
			l.fill(l.owner, now) // the calls that are being finished need one
		}
	case running(owner) == 0:
		l.phase = phaseStopped
	case l.ownerUntil.IsZero():
		l.ownerUntil = maxTime(l.drainUntil, now.Add(ownerGrace))
		if !l.owner.ready {
			l.ownerUntil = now.Add(ownerGrace) // it holds no work
		}
		signalAll(owner, unix.SIGTERM)
	case now.After(l.ownerUntil):
		l.overdue(owner)
	}
}

// overdue kills what did not stop in time.
func (l *loop) overdue(places []*place) {
	for _, p := range places {
		if p.process == nil || p.process.killed != "" {
			continue
		}
		l.log.Error("child does not stop in time, killing it", slog.String("child", p.String()), slog.Int("pid", p.process.PID))
		p.process.kill("did not stop in time")
		l.cut = true
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
