package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"rankd/internal/stats"

	"golang.org/x/sys/unix"
)

// server is what is made once and outlives every child.
type server struct {
	cfg       Config
	deps      Deps
	log       *slog.Logger
	signals   <-chan os.Signal
	startedAt time.Time
	self      identity

	runDir       string
	address      string // as bound
	instance     string
	lock         *lock // of the address; inherited
	instanceLock *lock
	listeners    *listeners
	steering     *steering
	bells        []int
	life         lifePipe
	page         *stats.Page
	statsFile    *os.File
	tables       *Tables
	forker       *forker
	notify       *notifier
	http         *httpServer
	status       atomic.Pointer[Status]
	samples      atomic.Pointer[[]Sample]
	happened     *keptEvents
	history      history
}

// Run serves until it is asked to stop by a signal or by ctx, or until a child cannot be started at all. It returns nil
// after a complete drain, ErrCut after one that killed processes, and what went wrong otherwise.
func Run(ctx context.Context, cfg Config, deps Deps) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	events := newEventLog(deps.Log.Handler())
	s := &server{cfg: cfg, deps: deps, log: slog.New(events), happened: events.kept, signals: deps.Signals, startedAt: time.Now()}
	if s.deps.Executable == "" {
		s.deps.Executable = "/proc/self/exe"
	}
	if s.signals == nil {
		signals, stop := askedToStop()
		defer stop()
		s.signals = signals
	}
	defer func() {
		err = errors.Join(err, s.close())
		if s.notify != nil { // it had begun
			s.log.Info("stopped", slog.Bool("in_order", err == nil), seconds("up", time.Since(s.startedAt)))
		}
	}()
	if err := s.claim(); err != nil {
		return err
	}
	l := newLoop(ctx, s)
	if err := s.prepare(l); err != nil {
		return err
	}
	defer func() {
		if l.region != nil {
			err = errors.Join(err, l.region.Close())
		}
	}()
	for {
		stopped, err := l.load()
		if stopped || err != nil {
			return err
		}
		if err := l.run(); !errors.Is(err, errSpoilt) {
			return err
		}
		if err := l.discard(); err != nil {
			return err
		}
	}
}

// claim takes the address and the instance for this server.
func (s *server) claim() error {
	dir := RunDir(s.cfg.RunDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make run directory, choose another with --run-dir: %w", err)
	}
	s.runDir = dir
	var err error
	if s.self, err = identify(os.Getpid()); err != nil {
		return err
	}
	want, err := resolve("listen", s.cfg.Listen)
	if err != nil {
		return err
	}
	// The lock first, so that a second server is told about the first one rather than about a port. A free port has to be
	// found before its number can be in a name.
	if want.Port() == 0 {
		if s.listeners, err = bind(want, s.cfg.Frontends); err != nil {
			return err
		}
		want = s.listeners.address
	}
	s.address = want.String()
	if s.instance = s.cfg.Instance; s.instance == "" {
		s.instance = instanceFor(s.address)
	}
	if s.lock, err = takeLock(s.log, dir, s.address, s.instance); err != nil {
		return err
	}
	if s.instanceLock, err = takeLock(s.log, dir, "instance-"+s.instance, s.instance); err != nil {
		return err
	}
	if err := endOrphans(dir, s.instance); err != nil {
		return err
	}
	if s.listeners == nil {
		s.listeners, err = bind(want, s.cfg.Frontends)
	}
	return err
}

// prepare makes everything that does not depend on the model.
func (s *server) prepare(l *loop) error {
	// What lies there from a dead server of this name is garbage, but for tables: those the loader may find complete.
	s.removeLeftovers(func(path string) bool { return isTables(path, s.instance) })
	var err error
	for range s.cfg.Frontends {
		bell, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("make doorbell: %w", err)
		}
		s.bells = append(s.bells, bell)
	}
	if s.life, err = newLifePipe(); err != nil {
		return err
	}
	if s.page, s.statsFile, err = stats.Create(); err != nil {
		return err
	}
	if s.steering, err = newSteering(s); err != nil {
		return err
	}
	s.forker, s.notify = newForker(), newNotifier()
	l.publish(time.Now())
	if s.http, err = serveHTTP(s); err != nil {
		return err
	}
	l.writeState()
	s.log.Info("server starts", slog.String("listen", s.address), slog.String("http", s.http.address()), slog.String("instance", s.instance),
		slog.Int("frontends", s.cfg.Frontends), slog.String("model", s.cfg.Model), slog.String("executor", s.deps.Executor), slog.String("run_dir", s.runDir))
	return nil
}

func isTables(path, instance string) bool {
	return strings.HasPrefix(filepath.Base(path), "rankd."+instance+".tables.")
}

func (s *server) removeLeftovers(keep func(string) bool) {
	removed, err := removeLeftovers(s.deps.ShmDirs, s.instance, keep)
	if err != nil {
		s.log.Warn("leftovers of a dead server cannot be removed", slog.Any("error", err))
	}
	if len(removed) > 0 {
		s.log.Info("leftovers of a dead server removed", slog.Any("files", removed))
	}
}

// close undoes claim and prepare, as far as they came. Every child is gone by now.
func (s *server) close() error {
	var errs []error
	if s.http != nil {
		s.http.close()
	}
	if s.forker != nil {
		s.forker.stop()
	}
	if s.tables != nil {
		if !s.cfg.KeepTables && s.tables.Remove != nil {
			errs = append(errs, s.tables.Remove())
		}
		errs = append(errs, s.tables.Close())
	}
	if s.steering != nil { // it reads the page
		errs = append(errs, s.steering.Close())
	}
	if s.page != nil {
		errs = append(errs, s.page.Close(), s.statsFile.Close())
	}
	s.life.close()
	for _, bell := range s.bells {
		unix.Close(bell)
	}
	if s.listeners != nil {
		s.listeners.close()
	}
	if s.notify != nil {
		s.notify.close()
	}
	if s.instanceLock != nil {
		if err := os.Remove(StatePath(s.runDir, s.instance)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	s.instanceLock.release()
	s.lock.release()
	return errors.Join(errs...)
}
