package deviceowner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rankd/deviceowner/device"
	"rankd/deviceowner/executor"
	"rankd/internal/bell"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/faults"
	"rankd/internal/stats"
	"rankd/model"
	"rankd/shmring"
)

// ExitCode is the exit status that belongs to what Run returned.
func ExitCode(err error) config.ExitCode { return config.CodeOf(err, shmring.Unusable(err)) }

// Run is the main function of the device owner's process: it opens the device, compiles every bucket, takes the role,
// says that it is ready, and executes batches until SIGTERM, the end of ctx, or the end of the supervisor.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("start device owner: %w: %w", config.ErrBad, err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := child.WatchLife(cfg.LifeFD)
	go func() {
		select {
		case <-gone:
			// A device call may hang for long; nobody waits for its result any more.
			os.Exit(int(config.ExitError))
		case <-ctx.Done():
		}
	}()
	if err := run(ctx, &cfg, log); err != nil {
		return fmt.Errorf("run device owner: %w", err)
	}
	return nil
}

func run(ctx context.Context, cfg *Config, log *slog.Logger) (err error) {
	faults.Hit("owner.start")
	page, err := stats.Attach(cfg.StatsFD)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.Close()) }()
	region, err := shmring.Attach(cfg.RegionFD)
	if err != nil {
		return err
	}
	busy := false // the executor still has memory of the region, and won't give it back: the end of the process will
	defer func() {
		if !busy {
			err = errors.Join(err, region.Close())
		}
	}()
	region.OnCorrupt = func(err error) {
		log.Error("region is corrupt", "error", err)
		os.Exit(int(config.ExitCorruptRegion))
	}
	if len(cfg.BellFDs) < region.Geometry().Frontends {
		return fmt.Errorf("%w: --bell-fds: got %d descriptors, want one for each of %d frontends", config.ErrBad, len(cfg.BellFDs), region.Geometry().Frontends)
	}
	exec, buckets, err := openDevice(ctx, cfg, page.Owner(), log)
	if err != nil {
		return unlessStopped(ctx, badIfPermanent(err))
	}
	defer func() {
		if !busy {
			err = errors.Join(err, exec.Close())
		}
	}()
	mapSlabs(exec, region.SlabMemory(), log)
	// The role comes after the compilation: until then the predecessor's batches wait where they are.
	ring, err := region.Owner(cfg.Incarnation, bell.Set(cfg.BellFDs))
	if err != nil {
		return err
	}
	loop, err := NewLoop(Options{
		Ring: ring, Geometry: region.Geometry(), Executor: exec, Config: *cfg, Buckets: buckets, Counters: page.Owner(), Log: log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrBad, err)
	}
	if cfg.ReadyFD >= 0 {
		if err := child.Announce(cfg.ReadyFD, child.Ready{Layout: shmring.LayoutVersion, Incarnation: cfg.Incarnation}); err != nil {
			return err
		}
	}
	log.Info("ready", "device", exec.Name(), "batching", cfg.Batching, "pipeline_depth", loop.depth, "spin", loop.spin, "buckets", buckets)
	if cfg.Spin > loop.spin {
		log.Warn("spinning is off: fewer processors than actors", "frontends", region.Geometry().Frontends)
	}
	err = loop.Run(ctx)
	busy = loop.Busy()
	return err
}

// mapSlabs lets the device prepare the slabs for transfers, where it can. Otherwise rows travel as from any memory.
func mapSlabs(exec executor.Executor, slabs []byte, log *slog.Logger) {
	m, ok := exec.(device.Mapper)
	if !ok {
		return
	}
	switch mapped, err := m.MapHost(slabs); {
	case err != nil:
		log.Warn("slabs are not mapped for the device: rows are copied on their way to it", "bytes", len(slabs), "error", err)
	case mapped:
		log.Info("slabs mapped for the device", "bytes", len(slabs))
	}
}

// badIfPermanent marks what a restart would not mend as bad configuration. Anything else may pass: a device that is busy, or
// out of memory.
func badIfPermanent(err error) error {
	if errors.Is(err, executor.ErrPermanent) && !errors.Is(err, config.ErrBad) {
		return fmt.Errorf("%w: %w", config.ErrBad, err)
	}
	return err
}

// unlessStopped returns err, or nil if it is only what SIGTERM makes of a start that was not finished.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// openDevice opens the executor and makes every bucket ready: loaded from the cache or the bundle, or compiled, which may take
// seconds each.
func openDevice(ctx context.Context, cfg *Config, counters *stats.Block, log *slog.Logger) (executor.Executor, []int, error) {
	bundle, err := model.Open(cfg.Model)
	if err != nil {
		return nil, nil, executor.Permanent(err)
	}
	buckets := cfg.BucketsFor(bundle.Manifest)
	began := time.Now()
	exec, err := device.Open(bundle, device.Options{
		Kind: cfg.Executor, Depth: cfg.PipelineDepth, Plugin: cfg.Plugin, Platform: cfg.Platform, Threads: cfg.DeviceThreads,
		CPUs: cfg.OwnerCPUs, Cache: cfg.Executables, Bundled: !cfg.IgnoreBundled, Buckets: buckets, Log: log,
		SimCall: cfg.SimCall, SimRow: cfg.SimRow, SimTransfer: cfg.SimTransfer, SimFull: cfg.SimVerify == "full",
	})
	if err != nil {
		return nil, nil, err
	}
	if cfg.Executor == device.KindSim { // a real device tells of itself
		log.Info("device opened", "device", exec.Name(), "seconds", time.Since(began).Seconds())
	}
	for _, b := range buckets {
		if err := exec.Compile(ctx, b); err != nil {
			return nil, nil, errors.Join(err, exec.Close())
		}
	}
	log.LogAttrs(ctx, slog.LevelInfo, "buckets ready", append(readiness(exec, buckets, counters), slog.Float64("seconds", time.Since(began).Seconds()))...)
	return exec, buckets, nil
}

// readiness counts and names the buckets by where their programs came from.
func readiness(exec executor.Executor, buckets []int, counters *stats.Block) []slog.Attr {
	var compiled uint64
	if c, ok := exec.(device.Counter); ok {
		compiled, _ = c.Compiles()
	}
	counters.Add(stats.CompilesBefore, compiled)
	attrs := []slog.Attr{slog.Int("buckets", len(buckets)), slog.Uint64("compiled", compiled)}
	s, ok := exec.(device.Sourcer)
	if !ok {
		return attrs
	}
	from := map[stats.Source][]int{}
	for i, b := range buckets {
		source := s.Source(b)
		if i < stats.MaxBuckets { // NewLoop refuses more
			counters.SetSource(i, source)
		}
		from[source] = append(from[source], b)
	}
	for _, source := range []stats.Source{stats.SourceBundle, stats.SourceCache, stats.SourceCompiler} {
		if len(from[source]) > 0 {
			attrs = append(attrs, slog.Any("from_"+source.String(), from[source]))
		}
	}
	return attrs
}
