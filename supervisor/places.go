package supervisor

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"rankd/internal/child"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/internal/topology"
	"rankd/shmring"

	"golang.org/x/sys/unix"
)

const (
	roleOwner    = "deviceowner"
	roleFrontend = "frontend"
)

// place is to be filled with one process of a role.
//
//	empty ── fill ──► starting ── ready line ──► ready
//	  ▲                  │ exit: wait (back-off)   │ exit: at once
//	  └── recovered ◄────┴────── recovering ◄──────┘        (frontends; the owner skips recovering)
type place struct {
	role        string
	index       int
	incarnation uint32 // of the process in it, or of the last one
	process     *process
	ready       bool // the process has written its ready line
	proven      bool // some process of the place has been ready, so the configuration can work
	recovering  bool // the ring may hold traces of the last incarnation
	restarts    int
	backoff     backoff
	startAt     time.Time    // earliest next start
	last        string       // how the last process ended
	cpus        topology.Set // on which the process may run, as the kernel has it; nil: not known
}

func (p *place) String() string {
	if p.role == roleOwner {
		return p.role
	}
	return p.role + " " + strconv.Itoa(p.index)
}

// state describes the place for people.
func (p *place) state(now time.Time) string {
	switch {
	case p.process != nil && p.ready:
		return "ready"
	case p.process != nil:
		return "starting"
	case p.recovering:
		return "waiting for the ring to recover"
	case p.startAt.After(now):
		return "backing off"
	}
	return "empty"
}

// due reports whether the place is to be filled now (I2, I3).
func (p *place) due(now time.Time) bool {
	return p.process == nil && !p.recovering && !now.Before(p.startAt)
}

// fill starts the next incarnation in the place. If even the fork goes wrong, that counts as a death before READY.
func (l *loop) fill(p *place, now time.Time) {
	p.incarnation++
	p.ready = false
	s, cleanup, err := l.spec(p)
	if err == nil {
		p.process, err = start(l.forker, s, l.events, l.relay)
		cleanup()
		if err != nil {
			s.readyPipe.Close()
		}
	}
	if err != nil {
		p.last = err.Error()
		p.startAt = now.Add(p.backoff.died(false))
		l.log.Error("child cannot be started", slog.String("child", p.String()), slog.Any("error", err))
		return
	}
	faults.Hit("supervisor.started") // the state file does not name the child yet
	l.log.Info("child started", slog.String("child", p.String()), slog.Int("pid", p.process.PID),
		slog.Uint64("epoch", uint64(p.incarnation)), slog.String("cpus", s.cpus.String()), slog.Any("arguments", s.args))
	l.writeState()
}

// spec puts together what the next process of the place gets. cleanup closes what only the child is to have.
func (l *loop) spec(p *place) (s spec, cleanup func(), err error) {
	reading, writing, err := os.Pipe()
	if err != nil {
		return spec{}, nil, fmt.Errorf("make ready pipe: %w", err)
	}
	s = spec{
		place: p, executable: l.deps.Executable, readyPipe: reading, limit: l.cfg.FrontReady, cpus: l.pinnedTo(p),
		ready: child.Ready{Layout: l.deps.Layout, Incarnation: p.incarnation},
	}
	give := func(fd int) int {
		s.fds = append(s.fds, fd)
		return 2 + len(s.fds)
	}
	in := child.NoDescriptors()
	in.Instance, in.Index, in.Incarnation = l.instance, p.index, p.incarnation
	in.ReadyFD = give(int(writing.Fd()))
	in.LifeFD = give(l.life.reading)
	in.LockFD = give(int(l.lock.file.Fd()))
	in.StatsFD = give(int(l.statsFile.Fd()))
	in.RegionFD = give(l.region.FD)
	role := l.deps.Owner
	if p.role == roleOwner {
		s.limit = l.cfg.OwnerReady
		for _, bell := range l.bells {
			in.BellFDs = append(in.BellFDs, give(bell))
		}
	} else {
		role = l.deps.Frontend
		in.TablesFD = give(l.tablesFor(p))
		in.ListenerFD = give(l.listeners.fds[p.index])
		in.BellFDs = []int{give(l.bells[p.index])}
		if n := l.cfg.FrontendThreads; n > 0 {
			s.env = append(s.env, "GOMAXPROCS="+strconv.Itoa(n))
		}
	}
	s.args = append([]string{role.Command}, role.Args(in)...)
	s.env = childEnv(os.Environ(), append(s.env, role.Env...))
	return s, func() { writing.Close() }, nil
}

// handle takes in what became known of a child.
func (l *loop) handle(e event, now time.Time) {
	p := e.from.place
	if p.process != e.from {
		return
	}
	switch e.kind {
	case announced:
		p.ready, p.proven = true, true
		p.backoff.ready()
		l.checkPinned(p)
		if p.role == roleFrontend {
			l.steering.set(p.index, true)
		}
		l.log.Info("child is ready", slog.String("child", p.String()), slog.Int("pid", e.from.PID),
			seconds("after", now.Sub(e.from.started)))
		if p.role == roleOwner {
			l.watch.reset(now)
			l.setOwnerState(shmring.OwnerUp)
		}
	case failed:
		l.log.Error("child does not become ready", slog.String("child", p.String()), slog.Int("pid", e.from.PID), slog.Any("error", e.err))
		e.from.kill(e.err.Error())
	case exited:
		l.reaped(p, e, now)
	}
}

// reaped takes a process out of its place: it will never run again.
func (l *loop) reaped(p *place, e event, now time.Time) {
	wasReady, killed := p.ready, e.from.killed
	faults.Hit("supervisor.reaped") // nobody else knows yet
	p.process, p.ready, p.cpus = nil, false, nil
	how, cause := howEnded(e)
	if p.last = how; cause != "" {
		p.last += ": " + cause
	}
	p.restarts++
	p.startAt = now.Add(p.backoff.died(wasReady))
	if p.role == roleOwner {
		l.page.Owner().ClearGauges()
		l.ring().MarkOwnerDead(p.incarnation)
		l.setOwnerState(stateAfter(wasReady, killed))
	} else {
		l.steering.set(p.index, false) // first: without its connections it would be the most attractive
		l.page.Frontend(p.index).ClearGauges()
		l.ring().MarkDead(p.index, p.incarnation)
		p.recovering = true
	}
	l.ring().RingAll() // I5
	level, stopping := slog.LevelError, l.phase == phaseDraining || l.phase == phaseRebuilding
	if stopping {
		level = slog.LevelInfo
	} else {
		l.page.Supervisor().Inc(restartCounter(p.role))
	}
	follows := restart
	if !stopping && e.status.Exited() {
		follows = judge(e.status.ExitStatus())
	}
	ended := []slog.Attr{
		slog.String("child", p.String()), slog.Int("pid", e.from.PID), slog.String("ending", how), slog.Bool("was_ready", wasReady),
	}
	if cause != "" {
		ended = append(ended, slog.String("cause", cause))
	}
	if !stopping && follows == restart {
		ended = append(ended, seconds("next_start_in", max(p.startAt.Sub(now), 0)))
	}
	l.log.LogAttrs(l.ctx, level, "child has ended", ended...)
	l.writeState()
	switch follows {
	case giveUp:
		if p.proven {
			// Something has changed under a server that works, perhaps a file of the bundle: the other children serve on, and
			// the place is filled again and again until the cause is mended.
			return
		}
		l.drain(fmt.Errorf("start %s: %s: %w", p, p.last, ErrBadConfig), now)
	case rebuild:
		l.beginRebuild(fmt.Sprintf("%s found the region corrupt", p), now)
	}
}

// howEnded tells how a child ended and, if it said so itself, why.
func howEnded(e event) (how, cause string) {
	switch {
	case e.from.killed != "":
		return "killed: " + e.from.killed, ""
	case e.err != nil:
		return e.err.Error(), ""
	case e.status.ExitStatus() != 0: // -1 after a signal
		cause = e.from.words.String()
	}
	return ending(e.status), cause
}

func restartCounter(role string) stats.Counter {
	if role == roleOwner {
		return stats.RestartsOwner
	}
	return stats.RestartsFrontend
}

// stateAfter is the owner's state after its death. An owner that was killed for hanging is as good as one that backs off:
// calls have waited long enough.
func stateAfter(wasReady bool, killed string) shmring.OwnerState {
	if wasReady && killed == "" {
		return shmring.OwnerRestarting
	}
	return shmring.OwnerBackoff
}

func (l *loop) setOwnerState(s shmring.OwnerState) {
	l.ownerState = s
	l.ring().SetOwnerState(s)
}

// look reads what the ring says about children that must be killed or may be replaced.
func (l *loop) look(now time.Time) {
	for i, p := range l.frontends {
		if p.recovering && l.ring().Recovered(i) {
			p.recovering = false
		}
		if inc, wanted := l.ring().KillRequest(i); wanted && p.process != nil && inc == p.incarnation && p.process.killed == "" {
			l.log.Error("frontend holds up a batch, killing it", slog.Int("index", i), slog.Int("pid", p.process.PID))
			l.page.Supervisor().Inc(stats.KillsStraggler)
			p.process.kill("held up a batch")
		}
	}
	owner := l.owner
	if owner.process == nil || !owner.ready || owner.process.killed != "" {
		return
	}
	if why := l.watch.look(now, l.ring().OwnerHeartbeat(), l.ring().OldestLaunch()); why != "" {
		l.log.Error("device owner hangs, killing it", slog.String("why", why), seconds("limit", l.watch.limit), slog.Int("pid", owner.process.PID))
		l.page.Supervisor().Inc(stats.KillsHang)
		owner.process.kill(why)
	}
}

// signalAll sends a signal to the processes of some places and reports how many there are.
func signalAll(places []*place, sig unix.Signal) (n int) {
	for _, p := range places {
		if p.process != nil {
			p.process.signal(sig)
			n++
		}
	}
	return n
}

func running(places []*place) (n int) { return signalAll(places, 0) }
