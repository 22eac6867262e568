package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/deviceowner"
	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt"
	"rankd/frontend"
	"rankd/internal/bell"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/faults"
	"rankd/internal/hugemem"
	"rankd/internal/placement"
	"rankd/model"
	"rankd/shmring"
	"rankd/supervisor"
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

	plan *placement.Plan // where everything is to be, once check has found nothing wrong
}

type generalConfig struct {
	Config    string `flag:"config" unit:"file" file:"no" help:"YAML file with settings, named as these flags; flags and environment win over it. rankd config example prints one; empty: none is read"`
	LogFormat string `flag:"log-format" oneof:"auto|text|json" help:"form of log lines; auto: text on a terminal, JSON elsewhere"`
}

func newServeConfig() *serveConfig {
	return &serveConfig{
		supervisor: supervisor.Default(), frontend: frontend.DefaultSettings(), owner: deviceowner.DefaultSettings(),
		general: generalConfig{LogFormat: "auto"},
	}
}

// sections are all settings of a server, in the order of help, pages and files. What is here is a flag, an environment
// variable and a key of the file.
func (c *serveConfig) sections() []config.Section {
	return []config.Section{
		{Title: "Server", Config: &c.supervisor},
		{Title: "Device owner", Config: &c.owner},
		{Title: "Frontends", Config: &c.frontend},
		{Title: "General", Config: &c.general},
	}
}

const serveLong = `Load a model's tables once, start the device owner and the frontends, and serve until SIGTERM.

The server is ready when every frontend has scored a request of its own through to the device;
/readyz says so, and systemd is told. SIGTERM drains: open calls end, new ones are refused with
"draining"; a second SIGTERM ends everything at once.

Every flag can also stand in a file (--config) or in the environment (--shm-dir is RANKD_SHM_DIR).
A flag wins over the environment, and that over the file. All that is wrong is told before anything
is started, with exit code 78.

Before: "rankd doctor" with the same flags tells whether this machine can serve, and what to change.
After: "rankd inspect ready" tells whether it serves, http://127.0.0.1:8501/statusz what it does.`

const serveExample = `  rankd serve --model DIR                                 the CPU plugin, one frontend
  rankd serve --model DIR --frontends 4 --platform cuda   a GPU
  rankd serve --config /etc/rankd/rankd.yaml              what the file says
  rankd serve --model DIR --executor sim                  a simulated accelerator, to measure the host`

func newServe() *cobra.Command {
	c := newServeConfig()
	cmd := &cobra.Command{
		Use:     "serve --model DIR",
		Short:   "serve a model",
		Long:    serveLong,
		Example: serveExample,
		Args:    arguments(),
		GroupID: "run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd)
		},
	}
	config.BindSections(cmd.Flags(), c.sections())
	config.DeferErrors(cmd.Flags())
	return cmd
}

func (c *serveConfig) run(cmd *cobra.Command) error {
	faults.Become(faults.Supervisor, 0, 1)
	bundle, origins, err := c.load(cmd.Flags())
	log := newLogger(c.general.LogFormat)
	for _, v := range unknownVariables(cmd.Root(), os.Environ()) {
		log.Warn("environment variable is read by nothing", "name", v.name, "near", v.near)
	}
	if err != nil {
		return problems("serve", err)
	}
	log.Info("configuration", "file", c.general.Config, "from_file", origins.Count(config.FromFile),
		"from_environment", origins.Count(config.FromEnvironment), "from_flags", origins.Count(config.FromFlag))
	for _, text := range origins.Idle(cmd.Flags()) {
		log.Warn("setting has no effect", "why", text)
	}
	logPlacement(log, c.plan)
	return c.ended(supervisor.Run(cmd.Context(), c.supervisor, c.deps(bundle, log)))
}

// load reads environment and file and validates everything that can be known before anything is made. The error joins all
// that is wrong, each with the place where it stands.
func (c *serveConfig) load(fs *pflag.FlagSet) (*model.Bundle, config.Origins, error) {
	origins, err := config.Fill(fs)
	if errors.Is(err, config.ErrFile) { // what follows from the lack of its settings would only hide that
		return nil, origins, err
	}
	bundle, wrong := c.check()
	return bundle, origins, errors.Join(err, origins.Explain(wrong))
}

// check returns every violation. The bundle is nil if it can't be opened.
func (c *serveConfig) check() (*model.Bundle, error) {
	values := c.checkValues()
	bundle, err := c.openModel()
	errs := []error{values, err}
	if values == nil { // else it would be checked against values that are wrong
		errs = append(errs, c.checkPlacement(bundle))
		if bundle != nil {
			errs = append(errs, c.checkBundle(bundle))
		}
	}
	if c.owner.Executor == device.KindPJRT { // better now than after the tables were loaded, by a child that is started again and again
		if err := pjrt.CheckPlugin(c.owner.Plugin, c.owner.Platform); err != nil {
			errs = append(errs, fmt.Errorf("check --plugin: %w", err))
		}
	}
	return bundle, errors.Join(errs...)
}

// checkValues returns every violation of the bounds of settings and of those between them.
func (c *serveConfig) checkValues() error {
	front, owner := c.frontendConfig(child.NoDescriptors()), c.ownerConfig(child.NoDescriptors())
	front.DrainTimeout = c.supervisor.DrainTimeout // a violation is told with the value that was given
	errs := []error{c.supervisor.Validate(), owner.Validate(), front.Validate(), config.Check(&c.general)}
	if _, err := hugemem.Survey(hugemem.Options{Dir: c.supervisor.ShmDir, Named: true, Size: 1}); err != nil && errs[0] == nil {
		errs = append(errs, fmt.Errorf("check --shm-dir: %w", err))
	}
	return errors.Join(errs...)
}

func (c *serveConfig) openModel() (*model.Bundle, error) {
	if c.supervisor.Model == "" {
		return nil, errors.New(`check --model: got nothing, want the directory of a model bundle ("rankd model create-demo DIR" makes one)`)
	}
	bundle, err := model.Open(c.supervisor.Model)
	if err != nil {
		return nil, fmt.Errorf("check --model: %w", err)
	}
	return bundle, nil
}

// checkBundle checks what a model and the settings ask of each other.
func (c *serveConfig) checkBundle(b *model.Bundle) error {
	if rows := slices.Max(c.owner.BucketsFor(b.Manifest)); rows > shmring.MaxCapacity {
		return fmt.Errorf("check --buckets: got a batch of %d rows, want at most %d", rows, shmring.MaxCapacity)
	}
	errs := []error{c.geometry(b.Manifest).Validate()}
	for _, rows := range c.owner.BucketsFor(b.Manifest) {
		if _, err := b.ProgramText(rows); err != nil {
			errs = append(errs, fmt.Errorf("check --buckets: %w", err))
		}
	}
	return errors.Join(errs...)
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
	case c.frontend.ChunkRows != 0: // a negative one is told by its check
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
		Layout:    shmring.LayoutVersion,
		Placement: c.plan,
		Model:     supervisor.Model{Name: b.Manifest.Name, Version: b.Manifest.Version, Dir: b.Dir},
		Executor:  c.executorText(),
		ShmDirs:   hugemem.Dirs(c.supervisor.ShmDir),
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

func (c *serveConfig) newRegion(ctx context.Context, m *model.Manifest, bells []int, log *slog.Logger) (*supervisor.Region, error) {
	g := c.geometry(m)
	f, err := hugemem.Create(ctx, hugemem.Options{
		Name: "rankd-region", Size: int64(g.Bytes()), Dir: c.supervisor.ShmDir, Nodes: c.plan.Slabs.Nodes, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("make ring region of %d slabs of %s: %w", g.Slabs, config.Bytes(g.SlabBytes()).Human(), err)
	}
	r, err := shmring.Format(f.Mapping.Bytes, g)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	nodes := effective(log, "slabs", c.plan.Slabs.Copies()[0], f.Mapping.Nodes)
	return &supervisor.Region{
		FD:     int(f.Fd()),
		Memory: supervisor.Memory{Bytes: f.Size, HugeBytes: f.Coverage.HugeBytes, Pages: f.Coverage.String(), Placement: c.plan.Slabs.String(), Nodes: nodes},
		Ring:   r.Supervisor(bell.Set(bells)),
		Close:  f.Close,
	}, nil
}
