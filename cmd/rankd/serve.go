package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"rankd/deviceowner"
	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt"
	"rankd/frontend"
	"rankd/internal/bell"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/faults"
	"rankd/internal/hugemem"
	"rankd/model"
	"rankd/shmring"
	"rankd/supervisor"
	"rankd/tables"
)

// writersPerFrontend is how many goroutines of a frontend may hold a reservation at once. A holder only gathers one chunk, so
// more than the CPUs of a frontend bring nothing.
const writersPerFrontend = 32

// serveConfig is what a person may set about a server; the parts belong to the packages that use them.
type serveConfig struct {
	supervisor supervisor.Config
	frontend   frontend.Settings
	owner      deviceowner.Settings
	general    generalConfig
}

type generalConfig struct {
	LogFormat string `flag:"log-format" oneof:"auto|text|json" help:"form of log lines; auto: text on a terminal, JSON elsewhere"`
}

const serveLong = `Load a model's tables once, start the device owner and the frontends, and serve until SIGTERM.

The server is ready when every frontend has scored a request of its own through to the device;
/readyz says so, and systemd is told. SIGTERM drains: open calls end, new ones are refused with
"draining"; a second SIGTERM ends everything at once.

  rankd serve --model DIR                                 the CPU plugin, one frontend
  rankd serve --model DIR --frontends 4 --platform cuda   a GPU
  rankd serve --model DIR --executor sim                  a simulated accelerator, to measure the host`

func newServe() *cobra.Command {
	c := serveConfig{
		supervisor: supervisor.Default(), frontend: frontend.DefaultSettings(), owner: deviceowner.DefaultSettings(),
		general: generalConfig{LogFormat: "auto"},
	}
	cmd := &cobra.Command{
		Use:     "serve --model DIR",
		Short:   "serve a model",
		Long:    serveLong,
		Args:    arguments(),
		GroupID: "run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags()); err != nil {
				return err
			}
			return c.run(cmd.Context(), unknownVariables(cmd.Root(), os.Environ()))
		},
	}
	bind(cmd, &c.supervisor, &c.owner, &c.frontend, &c.general)
	return cmd
}

func (c *serveConfig) run(ctx context.Context, unknown []string) error {
	faults.Become(faults.Supervisor, 0, 1)
	log := newLogger(c.general.LogFormat)
	for _, name := range unknown {
		log.Warn("environment variable is read by nothing", "name", name)
	}
	bundle, err := c.check()
	if err != nil {
		return withCode(fmt.Errorf("serve: %w", err), config.ExitBadConfig)
	}
	if err := supervisor.Run(ctx, c.supervisor, c.deps(bundle, log)); err != nil {
		return withCode(fmt.Errorf("serve: %w", err), config.CodeOf(err, false))
	}
	return nil
}

// check validates everything that can be known before anything is made.
func (c *serveConfig) check() (*model.Bundle, error) {
	front, owner := c.frontendConfig(child.NoDescriptors()), c.ownerConfig(child.NoDescriptors())
	if c.supervisor.Model == "" {
		return nil, errors.New(`check --model: got nothing, want the directory of a model bundle ("rankd model create-demo DIR" makes one)`)
	}
	bundle, err := model.Open(c.supervisor.Model)
	if err := errors.Join(c.supervisor.Validate(), front.Validate(), owner.Validate(), config.Check(&c.general), err); err != nil {
		return nil, err
	}
	if rows := slices.Max(c.owner.BucketsFor(bundle.Manifest)); rows > shmring.MaxCapacity {
		return nil, fmt.Errorf("check --buckets: got a batch of %d rows, want at most %d", rows, shmring.MaxCapacity)
	}
	if err := c.geometry(bundle.Manifest).Validate(); err != nil {
		return nil, err
	}
	for _, rows := range c.owner.BucketsFor(bundle.Manifest) {
		if _, err := bundle.ProgramText(rows); err != nil {
			return nil, fmt.Errorf("check --buckets: %w", err)
		}
	}
	if c.owner.Executor == device.KindPJRT { // better now than after the tables were loaded, by a child that is started again and again
		if _, err := pjrt.ResolvePlugin(c.owner.Plugin, c.owner.Platform); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

func (c *serveConfig) frontendConfig(in child.Inherited) frontend.Config {
	settings := c.frontend
	settings.ChunkRows = c.chunkRows()
	return frontend.Config{
		Inherited: in, Model: c.supervisor.Model, Batching: c.owner.Batching, Simulated: c.owner.Executor == device.KindSim,
		DrainDelay:   c.supervisor.DrainDelay,
		DrainTimeout: c.supervisor.DrainTimeout * 9 / 10, // so that a frontend cuts its calls itself before it is killed
		Settings:     settings,
	}
}

// chunkRows is --chunk-rows, decided. A batch leaves as soon as the device is idle, so a request whose rows come in several chunks is
// computed in several batches. An accelerator computes the first while the processor looks up the next. Where the device is the
// processor itself, a second batch costs what it costs, and nothing is won.
func (c *serveConfig) chunkRows() int {
	switch {
	case c.frontend.ChunkRows > 0:
		return c.frontend.ChunkRows
	case c.owner.OnHost():
		return deviceowner.HostBatchRows
	}
	return frontend.DefaultChunkRows
}

func (c *serveConfig) ownerConfig(in child.Inherited) deviceowner.Config {
	return deviceowner.Config{Inherited: in, Model: c.supervisor.Model, Settings: c.owner}
}

func (c *serveConfig) geometry(m *model.Manifest) shmring.Geometry {
	buckets := c.owner.BucketsFor(m)
	g := shmring.Geometry{
		Slabs: c.owner.Slabs(), Capacity: buckets[len(buckets)-1], ScoreBytes: m.ScoreBytes(),
		Frontends: c.supervisor.Frontends, Writers: writersPerFrontend,
	}
	g.ChunkRows = min(c.chunkRows(), g.Capacity)
	for _, p := range m.Packed {
		g.Strides = append(g.Strides, p.Stride)
	}
	return g
}

func (c *serveConfig) deps(b *model.Bundle, log *slog.Logger) supervisor.Deps {
	return supervisor.Deps{
		Log: log,
		LoadTables: verifying(b, func(ctx context.Context, instance string, progress func(done, total int64)) (*supervisor.Tables, error) {
			return c.loadTables(ctx, b, instance, progress, log)
		}),
		NewRegion: func(ctx context.Context, bells []int) (*supervisor.Region, error) {
			return c.newRegion(ctx, b.Manifest, bells, log)
		},
		Owner: supervisor.Role{Command: "deviceowner", Args: func(in child.Inherited) []string {
			return config.ToArgs(c.ownerConfig(in))
		}},
		Frontend: supervisor.Role{Command: "frontend", Args: func(in child.Inherited) []string {
			return config.ToArgs(c.frontendConfig(in))
		}},
		Layout:   shmring.LayoutVersion,
		Model:    supervisor.Model{Name: b.Manifest.Name, Version: b.Manifest.Version, Dir: b.Dir},
		Executor: c.executorText(),
		ShmDirs:  hugemem.Dirs(c.supervisor.ShmDir),
	}
}

func (c *serveConfig) executorText() string {
	if c.owner.Executor == device.KindSim {
		text := fmt.Sprintf("simulated accelerator (%v a batch, %v a row", c.owner.SimCall, c.owner.SimRow)
		if t := c.owner.SimTransfer; t > 0 {
			text += fmt.Sprintf(", %v a row on its way", t)
		}
		return text + ")"
	}
	return "pjrt " + c.owner.Platform
}

func (c *serveConfig) loadTables(ctx context.Context, b *model.Bundle, instance string, progress func(done, total int64), log *slog.Logger) (*supervisor.Tables, error) {
	shown := newProgressLog(log)
	o := tables.Options{
		Instance: instance, Dir: c.supervisor.ShmDir, Log: log,
		Progress: func(done, total int64) {
			progress(done, total)
			shown(done, total)
		},
	}
	// What a former run left of another model goes first: there may be no room for both.
	if _, err := tables.Reclaim(ctx, o, b.Manifest.TablesDigest()); err != nil {
		return nil, err
	}
	s, err := tables.Acquire(ctx, b, o)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	return &supervisor.Tables{
		FD:     int(s.FD().Fd()),
		Memory: supervisor.Memory{Bytes: info.Bytes, Pages: info.Pages.String(), Path: s.Path, Attached: !s.Loaded},
		Check:  s.Check,
		Close:  s.Close,
		Remove: s.Remove,
	}, nil
}

func (c *serveConfig) newRegion(ctx context.Context, m *model.Manifest, bells []int, log *slog.Logger) (*supervisor.Region, error) {
	g := c.geometry(m)
	f, err := hugemem.Create(ctx, hugemem.Options{Name: "rankd-region", Size: int64(g.Bytes()), Dir: c.supervisor.ShmDir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("make ring region of %d slabs of %s: %w", g.Slabs, config.Bytes(g.SlabBytes()).Human(), err)
	}
	r, err := shmring.Format(f.Mapping.Bytes, g)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &supervisor.Region{
		FD:     int(f.Fd()),
		Memory: supervisor.Memory{Bytes: f.Size, Pages: f.Coverage.String()},
		Ring:   r.Supervisor(bell.Set(bells)),
		Close:  f.Close,
	}, nil
}
