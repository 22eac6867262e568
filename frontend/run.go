package frontend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"rankd/frontend/trace"
	"rankd/internal/batching"
	"rankd/internal/bell"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/stats"
	"rankd/model"
	"rankd/shmring"
	"rankd/tables"
)

// ExitCode is the exit status that belongs to what Run returned.
func ExitCode(err error) config.ExitCode { return config.CodeOf(err, shmring.Unusable(err)) }

// Run is the main function of a frontend process: it attaches to what the supervisor made, warms itself through to the
// device, says that it is ready, and serves until SIGTERM, the end of ctx, or the end of the supervisor. It returns nil
// after an orderly drain. A second SIGTERM ends it at once.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("start frontend: %w: %w", config.ErrBad, err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	gone := child.WatchLife(cfg.LifeFD)

	p, err := attach(&cfg, log)
	if err != nil {
		return fmt.Errorf("start frontend %d: %w", cfg.Index, err)
	}
	defer p.close()
	core, err := newCore(cfg, p.manifest, p.tables, p.ring, shapeOf(p.region.Geometry(), cfg), &meter{p.block}, log)
	if err != nil {
		return fmt.Errorf("start frontend %d: %w: %w", cfg.Index, config.ErrBad, err)
	}
	tracer, err := newTracer(ctx, &cfg, p.manifest, log)
	if err != nil {
		return fmt.Errorf("start frontend %d: %w", cfg.Index, err)
	}
	defer tracer.Close()
	server := newGRPCServer(core, tracer, log)
	core.OnState(server.health.set)
	core.Start()
	defer core.Close()

	if err := warmUntil(ctx, core, signals, gone); err != nil {
		if errors.Is(err, errStopped) {
			return nil
		}
		return fmt.Errorf("start frontend %d: %w", cfg.Index, err)
	}
	listener, err := inheritedListener(cfg.ListenerFD)
	if err != nil {
		return fmt.Errorf("start frontend %d: %w: %w", cfg.Index, config.ErrBad, err)
	}
	served := make(chan error, 1)
	go func() { served <- server.serve(listener) }()
	core.SetReady()
	if cfg.ReadyFD >= 0 {
		if err := child.Announce(cfg.ReadyFD, child.Ready{Layout: shmring.LayoutVersion, Incarnation: cfg.Incarnation}); err != nil {
			return fmt.Errorf("start frontend %d: %w", cfg.Index, err)
		}
	}
	log.Info("ready", "address", listener.Addr().String(), "model", p.manifest.Name, "version", p.manifest.Version, "lookup_kernel", p.tables.Kernel())
	return finish(ctx, server, served, signals, gone, log)
}

// newTracer makes a tracer if spans are wanted.
func newTracer(ctx context.Context, cfg *Config, m *model.Manifest, log *slog.Logger) (*trace.Tracer, error) {
	if cfg.TraceEndpoint == "" {
		return nil, nil
	}
	return trace.New(ctx, trace.Options{
		Endpoint: cfg.TraceEndpoint, Sample: cfg.TraceSample, Model: m.Name, Version: m.Version, Frontend: cfg.Index, Log: log,
	})
}

// errStopped says that the process was told to stop before it was ready.
var errStopped = errors.New("told to stop")

// warmUntil warms up, but not beyond --warm-timeout, a request to stop, or the end of the supervisor: a device that does not
// come must not keep the process.
func warmUntil(ctx context.Context, core *Core, signals <-chan os.Signal, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, core.cfg.WarmTimeout)
	defer cancel()
	warmed := make(chan error, 1)
	go func() { warmed <- core.warm(ctx) }()
	var why error
	select {
	case err := <-warmed:
		return err
	case <-signals:
		why = errStopped
	case <-gone:
		why = errors.New("warm up: the supervisor is gone")
	}
	cancel()
	<-warmed
	return why
}

// finish waits for a reason to stop and stops.
func finish(ctx context.Context, server *grpcServer, served <-chan error, signals <-chan os.Signal, gone <-chan struct{}, log *slog.Logger) error {
	select {
	case err := <-served:
		return err
	case <-gone: // nobody would restart what this process depends on
		server.server.Stop()
		<-served
		return errors.New("run frontend: the supervisor is gone")
	case <-ctx.Done():
	case <-signals:
	}
	log.Info("draining", "open_calls", server.core.open.Load())
	patience, cut := context.WithCancel(context.Background())
	defer cut()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		server.drain(patience)
	}()
	var err error
	select {
	case <-drained:
	case <-gone:
		err = errors.New("drain frontend: the supervisor is gone")
	case <-signals:
		err = errors.New("drain frontend: told to stop a second time")
	}
	cut()
	<-drained
	<-served // nobody uses the mapped memory from here on
	if err == nil {
		log.Info("drained")
	}
	return err
}

// parts is what a frontend process attaches to.
type parts struct {
	manifest *model.Manifest
	region   *shmring.Attached
	bell     *bell.Bell
	ring     *shmRing
	tables   *tables.Set
	page     *stats.Page
	block    *stats.Block
	log      *slog.Logger
}

func attach(cfg *Config, log *slog.Logger) (_ *parts, err error) {
	p := &parts{log: log}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	bundle, err := model.Open(cfg.Model)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrBad, err)
	}
	p.manifest = bundle.Manifest
	if p.page, err = stats.Attach(cfg.StatsFD); err != nil {
		return nil, err
	}
	p.block = p.page.Frontend(cfg.Index)
	if p.tables, err = tables.Attach(cfg.TablesFD, p.manifest); err != nil {
		return nil, err
	}
	if cfg.LookupKernel != "auto" {
		if err := p.tables.UseKernel(cfg.LookupKernel); err != nil {
			return nil, err
		}
	}
	if err = p.attachRegion(cfg, log); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *parts) attachRegion(cfg *Config, log *slog.Logger) (err error) {
	if p.region, err = shmring.Attach(cfg.RegionFD); err != nil {
		return err
	}
	p.region.OnCorrupt = func(err error) {
		log.Error("region is corrupt", "error", err)
		os.Exit(int(config.ExitCorruptRegion))
	}
	if err := fits(p.manifest, p.region.Geometry()); err != nil {
		return fmt.Errorf("%w: %w", config.ErrBad, err)
	}
	if len(cfg.BellFDs) != 1 {
		return fmt.Errorf("%w: --bell-fds: got %v, want one descriptor", config.ErrBad, cfg.BellFDs)
	}
	if p.bell, err = bell.Open(cfg.BellFDs[0]); err != nil {
		return err
	}
	role, err := p.region.Frontend(cfg.Index, cfg.Incarnation)
	if err != nil {
		return err
	}
	p.ring = &shmRing{Frontend: role, region: p.region.Region, bell: p.bell}
	return nil
}

// fits compares the region with the packed rows of the model.
func fits(m *model.Manifest, g shmring.Geometry) error {
	if len(g.Strides) != len(m.Packed) || g.ScoreBytes != m.ScoreBytes() {
		return fmt.Errorf("compare region with model: got %d arrays and %d score bytes, want %d and %d",
			len(g.Strides), g.ScoreBytes, len(m.Packed), m.ScoreBytes())
	}
	for a, s := range g.Strides {
		if s != m.Packed[a].Stride {
			return fmt.Errorf("compare region with model: stride of array %d is %d, want %d", a, s, m.Packed[a].Stride)
		}
	}
	return nil
}

func shapeOf(g shmring.Geometry, cfg Config) shape {
	return shape{
		arrays: len(g.Strides), strides: g.Strides, scoreBytes: g.ScoreBytes, capacity: g.Capacity,
		chunk: min(cfg.ChunkRows, g.ChunkRows), whole: batching.Kind(cfg.Batching).Alone(),
	}
}

func (p *parts) close() {
	var errs []error
	if p.bell != nil {
		errs = append(errs, p.bell.Close())
	}
	if p.tables != nil {
		errs = append(errs, p.tables.Close())
	}
	if p.region != nil {
		errs = append(errs, p.region.Close())
	}
	if p.page != nil {
		errs = append(errs, p.page.Close())
	}
	if err := errors.Join(errs...); err != nil {
		p.log.Warn("release shared memory", "error", err)
	}
}
