package pjrt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"rankd/deviceowner/pjrt/execache"
)

// DefaultCacheBytes bounds the folder of compiled programs when Options does not.
const DefaultCacheBytes = execache.DefaultBytes

// AutoCache is the setting that stands for the usual folder, see CacheDir.
const AutoCache = "auto"

// CacheDir turns a setting into Options.CacheDir. AutoCache becomes "executables" in the folder that systemd gave the service
// for its cache (CACHE_DIRECTORY), else in rankd's folder of the user's cache (XDG_CACHE_HOME or ~/.cache), else nothing.
// Any other setting is the folder itself.
func CacheDir(setting string) string {
	if setting != AutoCache {
		return setting
	}
	if dir, _, _ := strings.Cut(os.Getenv("CACHE_DIRECTORY"), ":"); dir != "" {
		return filepath.Join(dir, "executables")
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "rankd", "executables")
}

// store keeps the device's compiled programs in a folder. A nil store keeps none.
type store struct {
	cache  *execache.Cache
	device storer
	model  string
	base   execache.Key // without program and bucket
	log    *slog.Logger
}

// refusals are the plugins of this process that make no images of programs, by digest. They are asked once.
var refusals sync.Map

// openStore opens the folder for a plugin. It runs beside the opening of the device, since it may have to read the whole plugin.
func openStore(o *Options, plugin string, log *slog.Logger) (*store, error) {
	cache, err := execache.Open(o.CacheDir, o.CacheBytes, log)
	if err != nil {
		return nil, err
	}
	digest, err := cache.FileDigest(plugin)
	if err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	return &store{cache: cache, model: o.Model, base: execache.Key{Plugin: digest, Host: hostDigest()}, log: log}, nil
}

// bind completes the base of the keys with what the device says.
func (s *store) bind(d storer, o *Options, threads pinning) {
	s.device = d
	id := d.identify()
	s.base.API, s.base.Platform, s.base.Version, s.base.Device = id.API, id.Platform, id.Version, id.Kind
	// What the compiler looks at besides the program. encoding/json writes maps in the order of their keys.
	text, err := json.Marshal(struct {
		Compile []byte
		Client  map[string]any
		Threads int
		Flags   []string
	}{id.Options, o.CreateOptions, threads.count, []string{os.Getenv("XLA_FLAGS"), os.Getenv("LIBTPU_INIT_ARGS")}})
	if err != nil {
		text = fmt.Appendf(nil, "%v", o.CreateOptions) // values without a JSON form, such as an infinite float
	}
	s.base.Options = digest(text)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// hostDigest stands for what this machine's processor can do: compiled programs may use all of it.
func hostDigest() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // a machine without it has a digest of its own
	first, _, _ := strings.Cut(string(text), "\n\n")
	var lines []string
	for line := range strings.Lines(first) {
		name, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "vendor_id", "model name", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part":
			lines = append(lines, line)
		}
	}
	return digest([]byte(strings.Join(lines, "")))
}

func (s *store) key(bucket int, text []byte) execache.Key {
	k := s.base
	k.Program, k.Bucket = digest(text), bucket
	return k
}

func (s *store) refused() bool {
	_, refused := refusals.Load(s.base.Plugin)
	return refused
}

// load returns the program of an entry, or nil if there is none that works. A program of few rows has been run on zeros by
// then. A larger one is only known to be the undamaged image of a program that did run, and to have the right form.
func (s *store) load(bucket int, text []byte) runner {
	if s == nil || s.refused() {
		return nil
	}
	entry, err := s.cache.Load(s.model, s.key(bucket, text))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var trial *execache.Trial
	if err == nil {
		trial, err = entry.Try()
	}
	if err != nil {
		s.log.Warn("cached executable not used", "rows", bucket, "dir", s.cache.Dir(), "error", err)
		return nil
	}
	run := bucket <= provenRows
	r, err := s.device.load(bucket, entry.Image, run)
	if err != nil {
		trial.Reject()
		s.log.Warn("cached executable not used", "rows", bucket, "dir", s.cache.Dir(), "error", err)
		return nil
	}
	trial.Accept()
	if run {
		return r
	}
	entry.Image = nil
	return &unproven{runner: r, entry: entry}
}

// save makes an entry of a compiled program. That it cannot is no reason not to serve.
func (s *store) save(bucket int, text []byte, r runner) {
	if s == nil || s.refused() {
		return
	}
	image, err := s.device.serialize(r)
	if err != nil {
		if _, known := refusals.LoadOrStore(s.base.Plugin, true); !known {
			s.log.Warn("plugin does not serialize executables, they will be compiled at every start", "device", s.device.describe(), "error", err)
		}
		return
	}
	if err := s.cache.Store(s.model, s.key(bucket, text), image); err != nil {
		s.log.Warn("executable not cached", "bucket", bucket, "dir", s.cache.Dir(), "error", err)
	}
}

func (s *store) close() error {
	if s == nil {
		return nil
	}
	return s.cache.Close()
}
