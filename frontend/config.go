package frontend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rankd/frontend/trace"
	"rankd/internal/batching"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/tables"
)

// Config is the whole configuration of a frontend process: what the supervisor hands it, and what a person may set.
type Config struct {
	child.Inherited
	Model    string `flag:"model" help:"directory of the model bundle"`
	Batching string `flag:"batching" oneof:"continuous|linger|fused|off" help:"when a batch is closed; with off each request is a batch of its own"`
	// Simulated is for people and tools alone: the scores come through the same ring.
	Simulated bool `flag:"simulated" hidden:"true" help:"the device is a simulated one; ModelMetadata says so"`
	// DrainDelay and DrainTimeout follow from the supervisor's flags of these names.
	DrainDelay   time.Duration `flag:"drain-delay" unit:"duration" min:"0s" max:"60s" help:"time between health saying NOT_SERVING and connections being told to go"`
	DrainTimeout time.Duration `flag:"drain-timeout" unit:"duration" min:"0s" help:"longest drain after SIGTERM; calls that are still open then are cut"`
	Settings
}

// Settings is what a person may set about a frontend.
type Settings struct {
	MaxRequestBytes config.Bytes `flag:"max-request-bytes" unit:"bytes" min:"1KiB" max:"1GiB" help:"largest request message taken, after decompression"`
	MaxRequestRows  int          `flag:"max-request-rows" unit:"rows" min:"1" max:"8388607" help:"most rows (examples) in one request"`
	InflightBytes   config.Bytes `flag:"max-inflight-request-bytes" unit:"bytes" min:"1KiB" help:"request bytes that one frontend holds at once"`

	PendingRows       int `flag:"frontend-pending-rows" unit:"rows" min:"1" help:"rows admitted and not yet scored in one frontend; a request beyond is refused"`
	ServerPendingRows int `flag:"server-pending-rows" unit:"rows" min:"1" help:"rows admitted and not yet scored in all frontends together; a request beyond is refused"`

	ChunkRows     int           `flag:"chunk-rows" unit:"rows" min:"0" max:"4096" help:"rows looked up and committed at a time; 0: 32, with the cpu platform 128"`
	InlineChunks  int           `flag:"inline-chunks" unit:"chunks" min:"1" help:"chunks of a request that its own connection looks up; the gather workers take the rest"`
	GatherWorkers int           `flag:"gather-workers" unit:"goroutines" min:"0" max:"256" help:"goroutines that look up the rest of large requests and of those that waited for room; 0: as many as the process has CPUs, at most 8"`
	LookupKernel  string        `flag:"lookup-kernel" oneof:"auto|avx512|avx2|neon|generic" help:"vector instructions that pool table rows; all give the same bits. auto: the fastest that the processor has"`
	NoDeadlineMS  int           `flag:"no-deadline-ms" unit:"ms" min:"10" max:"3600000" help:"longest life of a call that brings no deadline, or a later one"`
	RestartGrace  time.Duration `flag:"restart-grace" unit:"duration" min:"0s" max:"1.5s" help:"how long calls wait for a device owner that is dead and backing off before they are refused"`

	MaxStreams         uint32        `flag:"max-concurrent-streams" unit:"streams" min:"1" help:"open calls on one connection"`
	MaxConnectionAge   time.Duration `flag:"max-connection-age" unit:"duration" min:"0s" help:"a connection older than this is asked to reconnect, which spreads clients over frontends; 0: never"`
	MaxConnectionGrace time.Duration `flag:"max-connection-age-grace" unit:"duration" min:"0s" help:"time that the calls of an aged connection have to end; 0: no limit"`
	KeepaliveTime      time.Duration `flag:"keepalive-time" unit:"duration" min:"1s" help:"a connection that was silent this long is pinged"`
	KeepaliveTimeout   time.Duration `flag:"keepalive-timeout" unit:"duration" min:"100ms" help:"a pinged connection that stays silent this long is closed"`
	KeepaliveMinTime   time.Duration `flag:"keepalive-min-time" unit:"duration" min:"0s" help:"a client that pings more often than this is cut off"`
	TraceEndpoint      string        `flag:"trace-endpoint" unit:"host:port" help:"OTLP collector (gRPC, without TLS) that gets spans of sampled requests; empty: none are made"`
	TraceSample        float64       `flag:"trace-sample" min:"0" max:"1" help:"share of the requests that is traced although the client does not ask for it; only with --trace-endpoint"`

	WarmTimeout time.Duration `flag:"warm-timeout" unit:"duration" min:"1s" help:"longest time that one request of the warm-up may take"`
}

// Default is the configuration of a frontend that nobody has configured.
func Default() Config {
	c := Config{Inherited: child.NoDescriptors(), Batching: string(batching.Continuous), DrainTimeout: 30 * time.Second, Settings: DefaultSettings()}
	c.ChunkRows = DefaultChunkRows
	return c
}

// DefaultChunkRows is how many rows are looked up and committed at a time beside a device of its own. More make the other calls of a
// batch wait longer, fewer cost reservations (docs/performance).
const DefaultChunkRows = 32

// DefaultSettings is the part of Default that a person may set.
func DefaultSettings() Settings {
	return Settings{
		MaxRequestBytes: 16 << 20,
		MaxRequestRows:  131072,
		InflightBytes:   256 << 20,

		PendingRows:       262144,
		ServerPendingRows: 1048576,

		ChunkRows:     0,
		InlineChunks:  4,
		GatherWorkers: 0,
		LookupKernel:  "auto",
		NoDeadlineMS:  60000,
		RestartGrace:  time.Second,

		MaxStreams:         1024,
		MaxConnectionAge:   0,
		MaxConnectionGrace: 0,
		KeepaliveTime:      2 * time.Minute,
		KeepaliveTimeout:   20 * time.Second,
		KeepaliveMinTime:   10 * time.Second,
		WarmTimeout:        60 * time.Second,
	}
}

// Validate returns every violation of the bounds in the tags and of those between fields, joined.
func (c *Config) Validate() error {
	var err error
	if c.ChunkRows == 0 { // whoever starts a frontend has decided what 0 stands for
		err = errors.New("check --chunk-rows: got 0, want at least 1")
	}
	return errors.Join(config.Check(c), err, c.Settings.between())
}

// between checks the bounds that fields set each other.
func (c *Settings) between() error {
	var errs []error
	wants := func(ok bool, flag, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("check --"+flag+": "+format, args...))
		}
	}
	wants(c.PendingRows >= c.MaxRequestRows, "frontend-pending-rows", "got %d, want at least --max-request-rows, which is %d",
		c.PendingRows, c.MaxRequestRows)
	wants(c.ServerPendingRows >= c.MaxRequestRows, "server-pending-rows", "got %d, want at least --max-request-rows, which is %d",
		c.ServerPendingRows, c.MaxRequestRows)
	wants(c.InflightBytes >= c.MaxRequestBytes, "max-inflight-request-bytes", "got %s, want at least --max-request-bytes, which is %s",
		c.InflightBytes, c.MaxRequestBytes)
	wants(c.LookupKernel == "auto" || slices.Contains(tables.KernelNames(), c.LookupKernel), "lookup-kernel",
		"got %s, want auto or one that this processor and build have: %s", c.LookupKernel, strings.Join(tables.KernelNames(), ", "))
	if c.TraceEndpoint != "" {
		if err := trace.CheckEndpoint(c.TraceEndpoint); err != nil {
			errs = append(errs, fmt.Errorf("check --trace-endpoint: %w", err))
		}
	}
	wants(c.TraceSample == 0 || c.TraceEndpoint != "", "trace-sample", "got %v without --trace-endpoint, want an address to send spans to", c.TraceSample)
	return errors.Join(errs...)
}
