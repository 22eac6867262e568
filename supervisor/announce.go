package supervisor

import (
	"fmt"
	"time"
)

// What the service manager is asked for beyond the limits in the unit's file, after each piece of real progress.
const (
	loadingStep  = 30 * time.Second // until more of the tables is loaded
	startingStep = 2 * time.Minute  // until the next program is compiled or the next process is ready: a large batch size takes long
	stopMargin   = 10 * time.Second // for what comes after the last process has ended
)

// statusEvery is how often figures in the status are told anew.
const statusEvery = 5 * time.Second

// briefing is what the service manager knows.
type briefing struct {
	at    time.Time // of the last status with figures
	phase phase
	ready int
	steps int // programs that are compiled and processes that are ready, the most that was told
}

// tellManager keeps the service manager's status up to date, and asks for more time when a start makes progress.
func (l *loop) tellManager(now time.Time) {
	a := &l.briefing
	ready := l.readyFrontends()
	switch l.phase {
	case phaseStarting:
		steps := len(l.page.Owner().Programs()) + ready
		if l.owner.ready {
			steps++
		}
		if a.phase != phaseStarting || steps > a.steps {
			a.steps = steps
			l.notify.progress(startingStep, l.inWords(now))
		}
	case phaseServing, phaseRebuilding:
		if a.phase == l.phase && a.ready == ready && now.Sub(a.at) < statusEvery {
			return
		}
		a.at = now
		l.notify.status(l.inWords(now))
	case phaseDraining: // said when it began
	}
	a.phase, a.ready = l.phase, ready
}

func (l *loop) readyFrontends() (n int) {
	for _, p := range l.frontends {
		if p.ready {
			n++
		}
	}
	return n
}

// inWords is the state of the server in a line, as "systemctl status" shows it.
func (l *loop) inWords(now time.Time) string {
	switch l.phase {
	case phaseLoading:
		return l.loadingText()
	case phaseStarting:
		if !l.owner.ready {
			return fmt.Sprintf("starting the device owner: %d batch sizes are compiled (%s)", len(l.page.Owner().Programs()), describe(l.owner, now))
		}
		return fmt.Sprintf("starting frontends: %d of %d are ready", l.readyFrontends(), len(l.frontends))
	case phaseDraining:
		return fmt.Sprintf("draining: open calls end, new ones are refused, for at most %v", l.cfg.DrainDelay+l.cfg.DrainTimeout)
	case phaseServing:
		text := fmt.Sprintf("serving %s version %s on %s: %d of %d frontends are ready", l.deps.Model.Name, l.deps.Model.Version, l.address, l.readyFrontends(), len(l.frontends))
		if !l.owner.ready {
			text += ", device owner: " + describe(l.owner, now)
		}
		if t := l.history.traffic(); t.Seconds > 0 {
			text += fmt.Sprintf(", %.0f rows/s", t.Rows)
		}
		return text
	}
	return string(l.phase)
}
