package deviceowner

import (
	"errors"
	"fmt"
	"time"

	"rankd/internal/batching"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/stats"
	"rankd/model"
	"rankd/shmring"
)

// Config is the whole configuration of a device owner's process: what the supervisor hands it, and what a person may set.
type Config struct {
	child.Inherited
	Model string `flag:"model" help:"directory of the model bundle"`
	Settings
}

// Settings is what a person may set about the device owner.
type Settings struct {
	Executor      string `flag:"executor" oneof:"pjrt|sim" help:"what runs the batches: a PJRT plugin, or a simulated accelerator for measuring the host path"`
	Platform      string `flag:"platform" when:"executor=pjrt" oneof:"cpu|cuda|tpu" help:"which PJRT plugin to look for"`
	Plugin        string `flag:"plugin" unit:"file" when:"executor=pjrt" help:"path of the PJRT plugin; empty: the installed one of the platform"`
	Executables   string `flag:"executable-cache" unit:"directory" when:"executor=pjrt" help:"directory that keeps compiled programs for the next start, written by this user alone; auto: executables in the service's or the user's cache directory; empty: none is kept"`
	IgnoreBundled bool   `flag:"ignore-bundle-executables" when:"executor=pjrt" help:"compile although the bundle has executables for this device"`
	DeviceThreads int    `flag:"device-threads" when:"executor=pjrt" min:"0" max:"1024" unit:"threads" help:"threads of the cpu platform; 0: as many as owner-cpus allows"`
	OwnerCPUs     []int  `flag:"owner-cpus" unit:"CPU numbers" help:"CPUs on which the device owner and the cpu platform's threads run; empty: all"`

	Batching      string        `flag:"batching" oneof:"continuous|linger|fused|off" help:"when a batch is closed"`
	MaxDelay      time.Duration `flag:"max-delay" when:"batching=linger|fused" min:"0s" max:"1s" unit:"duration" help:"how long linger and fused wait for more rows after the first"`
	PipelineDepth int           `flag:"pipeline-depth" min:"1" max:"16" unit:"batches" help:"batches on the device at once"`
	Buckets       []int         `flag:"buckets" unit:"rows" help:"compiled batch sizes, ascending; empty: those of the model, with the cpu platform those of at most 128 rows"`
	Spin          time.Duration `flag:"owner-spin" min:"0s" max:"10ms" unit:"duration" help:"how long the idle loop looks for work before it sleeps; use it only where a CPU can be spared"`
	Straggler     time.Duration `flag:"straggler-timeout" min:"100ms" max:"1m" unit:"duration" help:"how long a frontend may hold up a closed batch before it is killed"`

	SimCall     time.Duration `flag:"sim-call" when:"executor=sim" min:"0s" max:"1m" unit:"duration" help:"simulated accelerator: time a batch"`
	SimRow      time.Duration `flag:"sim-row" when:"executor=sim" min:"0s" max:"1s" unit:"duration" help:"simulated accelerator: time a row"`
	SimTransfer time.Duration `flag:"sim-transfer" when:"executor=sim" min:"0s" max:"1s" unit:"duration" help:"simulated accelerator: time a row on its way to the device, which may execute another batch meanwhile; 0: part of sim-call and sim-row"`
	SimVerify   string        `flag:"sim-verify" when:"executor=sim" oneof:"columns|full" help:"simulated accelerator: score from column 0 of each pooled vector, or from a checksum of every byte of the row (which rankd bench does not compute)"`
}

// Default is the configuration of a device owner that nobody has configured.
func Default() Config { return Config{Inherited: child.NoDescriptors(), Settings: DefaultSettings()} }

// DefaultSettings is the part of Default that a person may set.
func DefaultSettings() Settings {
	return Settings{
		Executor: "pjrt", Platform: "cpu", Executables: "auto",
		Batching: string(batching.Continuous), MaxDelay: time.Millisecond, PipelineDepth: 2, Straggler: 2 * time.Second,
		SimCall: 350 * time.Microsecond, SimRow: 1500 * time.Nanosecond, SimVerify: "columns",
	}
}

// Validate returns every violation.
func (c *Config) Validate() error { return errors.Join(config.Check(c), c.Settings.between()) }

// between checks what the tags can't say.
func (c *Settings) between() error {
	if n := len(c.Buckets); n > stats.MaxBuckets {
		return fmt.Errorf("check --buckets: got %d batch sizes, want at most %d", n, stats.MaxBuckets)
	}
	for i, b := range c.Buckets {
		if b < 1 || i > 0 && b <= c.Buckets[i-1] {
			return fmt.Errorf("check --buckets: got %v, want positive batch sizes in ascending order", c.Buckets)
		}
	}
	return nil
}

// Slabs returns the slabs that a region needs for this policy, from what each may be doing at one moment:
//
//   - PipelineDepth are on the device;
//   - one is open;
//   - one is closed and waits for its last commits, or for the device when it is full;
//   - one is done and being read. One more than that, since a slab is free only when the slowest of its frontends has
//     read it, and one that has lost its processor for a moment must not stop the others.
//
// PipelineDepth + 3 is the least with which none of them waits for another.
//
// With batching off a slab holds one request, so as many as the device has must also be written, waiting and being
// read, and some more keep the frontends from waiting for room. The ring's own limit bounds it.
func (c *Settings) Slabs() int {
	if batching.Kind(c.Batching).Alone() {
		return min(4*c.PipelineDepth+8, shmring.MaxSlabs)
	}
	return c.PipelineDepth + 4
}

// HostBatchRows is the most rows of a batch on the cpu platform, if nobody said otherwise: the activations of larger ones leave the
// caches, and a row of them costs more instead of less (docs/performance).
const HostBatchRows = 128

// OnHost reports whether batches are computed by the processors of this machine, which the frontends need as well.
func (c *Settings) OnHost() bool { return c.Executor == "pjrt" && c.Platform == "cpu" }

// BucketsFor returns the buckets to compile: the configured ones or the model's, the last of which is the slab capacity. On the cpu
// platform the model's buckets end at HostBatchRows, or after the first one.
func (c *Settings) BucketsFor(m *model.Manifest) []int {
	if len(c.Buckets) > 0 {
		return c.Buckets
	}
	n := len(m.Buckets)
	for c.OnHost() && n > 1 && m.Buckets[n-1] > HostBatchRows {
		n--
	}
	return m.Buckets[:n]
}
