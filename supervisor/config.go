package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"rankd/internal/config"
	"rankd/internal/placement"
	"rankd/internal/steer"

	"golang.org/x/sys/unix"
)

// Config is what a person may set about the server as a whole.
type Config struct {
	Model  string `flag:"model" unit:"directory" help:"directory of the model bundle"`
	Listen string `flag:"listen" unit:"host:port" help:"address of the gRPC services; an empty host is every address, port 0 a free port"`
	HTTP   string `flag:"http" unit:"host:port" help:"address of metrics, health and the status page; empty: none"`

	Instance        string `flag:"instance" help:"name of this server in the names of its files, of letters, digits, '-' and '_'; empty: made from the listening address"`
	Frontends       int    `flag:"frontends" unit:"processes" min:"1" max:"64" help:"frontend processes"`
	FrontendThreads int    `flag:"frontend-threads" unit:"threads" min:"0" max:"1024" help:"processors that each frontend uses at once (GOMAXPROCS); 0: all that it may"`
	Steering        string `flag:"steering" oneof:"auto|none|round-robin|least-connections" help:"which frontend gets a new connection; none: the kernel's hash decides. auto: least-connections, as exact as permitted"`

	Placement       string `flag:"placement" help:"on which CPUs the processes run: auto, node=N[,M] (those of NUMA nodes) or cpus=LIST, such as cpus=0-7. auto: those of this process, and with several nodes and as many frontends each frontend on one"`
	TablesPlacement string `flag:"tables-placement" help:"on which NUMA nodes the tables lie: auto, interleave (by turns), local-copies (all of them on each node) or node=N. auto: on the node in use, or interleaved over those in use"`

	RunDir     string `flag:"run-dir" unit:"directory" help:"directory of the lock and of the state file; empty: the service's, or a directory of this user that is emptied at boot"`
	ShmDir     string `flag:"shm-dir" unit:"directory" help:"directory for shared memory files; empty: the best one that is mounted"`
	KeepTables bool   `flag:"keep-tables" help:"leave the tables in memory at exit, so that the next start finds them loaded"`

	DrainDelay   time.Duration `flag:"drain-delay" unit:"duration" min:"0s" max:"60s" help:"time between health saying NOT_SERVING and connections being told to go, so that balancers look away first"`
	DrainTimeout time.Duration `flag:"drain-timeout" unit:"duration" min:"0s" max:"1h" help:"longest drain after SIGTERM; calls that are still open then are cut"`
	OwnerReady   time.Duration `flag:"owner-ready-timeout" unit:"duration" min:"100ms" max:"24h" help:"longest start of the device owner, compilation included"`
	FrontReady   time.Duration `flag:"frontend-ready-timeout" unit:"duration" min:"100ms" max:"1h" help:"longest start of a frontend, warming included"`
	DeviceHang   time.Duration `flag:"device-hang-timeout" unit:"duration" min:"500ms" max:"24h" help:"a device owner whose oldest launch is older, or whose loop stands still longer, is killed"`
	BackoffFirst time.Duration `flag:"restart-backoff" unit:"duration" min:"1ms" max:"1m" help:"wait after the first death before READY; doubles with each"`
	BackoffLimit time.Duration `flag:"restart-backoff-limit" unit:"duration" min:"1ms" max:"1h" help:"longest wait between two starts"`
}

// Default returns the configuration of a server without flags.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8500", HTTP: "127.0.0.1:8501", Frontends: 1, Steering: string(steer.Auto), Placement: placement.Auto, TablesPlacement: placement.Auto,
		DrainTimeout: 30 * time.Second, OwnerReady: 10 * time.Minute, FrontReady: 2 * time.Minute,
		DeviceHang: 30 * time.Second, BackoffFirst: 100 * time.Millisecond, BackoffLimit: 10 * time.Second,
	}
}

var instanceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns every violation.
func (c *Config) Validate() error {
	errs := []error{config.Check(c)}
	if c.Instance != "" && !instanceName.MatchString(c.Instance) {
		errs = append(errs, fmt.Errorf("check --instance: got %q, want 1 to 64 letters, digits, '-' or '_'", c.Instance))
	}
	if c.BackoffFirst > c.BackoffLimit {
		errs = append(errs, fmt.Errorf("check --restart-backoff: got %s, want at most --restart-backoff-limit, which is %s",
			config.FormatDuration(c.BackoffFirst), config.FormatDuration(c.BackoffLimit)))
	}
	errs = append(errs, c.checkAddresses(), checkShmDir(c.ShmDir))
	return errors.Join(errs...)
}

// checkAddresses finds out whether both addresses can be served at once. It binds nothing.
func (c *Config) checkAddresses() error {
	listen, err := resolve("listen", c.Listen)
	if c.HTTP == "" {
		return err
	}
	page, err2 := resolve("http", c.HTTP)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if listen.Port() != 0 && overlap(listen, page) {
		return fmt.Errorf("check --http: got %s, which --listen %s takes: want another port", c.HTTP, c.Listen)
	}
	return nil
}

// checkShmDir refuses a directory in which no file can be made, before anything else is tried.
func checkShmDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return fmt.Errorf("check --shm-dir: got %q, want a directory in which files can be made: %w", dir, err)
	}
	return nil
}

// instanceFor makes an instance name from an address: "127.0.0.1:8500" becomes "127-0-0-1-8500".
func instanceFor(address string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", r) {
			return r
		}
		return '-'
	}, address), "-")
}

// RunDir is the run directory: the one given, or that which systemd gave the service (RUNTIME_DIRECTORY), or else that of this user. It
// need not exist.
func RunDir(given string) string {
	service, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	switch {
	case given != "":
		return given
	case service != "":
		return service
	case os.Getuid() == 0:
		return "/run/rankd"
	case os.Getenv("XDG_RUNTIME_DIR") != "":
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "rankd")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("rankd-%d", os.Getuid()))
}
