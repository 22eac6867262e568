package pjrt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// store has the compiled programs of the device that need not be compiled now: those that this machine keeps in a folder, and
// those that came with the model. A nil store has none.
type store struct {
	cache  *execache.Cache // nil: none are kept
	shelf  *execache.Shelf // nil: none came with the model
	device storer
	model  string
	plugin string // digest of the plugin
	keys   keys
	log    *slog.Logger
}

// refusals are the plugins of this process that make no images of programs, by digest. They are asked once.
var refusals sync.Map

// openStore opens the folders for a plugin. It runs beside the opening of the device, since it may have to read the whole plugin.
// It returns nil if there is neither folder.
func openStore(o *Options, plugin string, log *slog.Logger) (*store, error) {
	s := &store{model: o.Model, log: log}
	var err error
	if o.CacheDir != "" {
		if s.cache, err = execache.Open(o.CacheDir, o.CacheBytes, log); err != nil {
			log.Warn("executables are not cached", "dir", o.CacheDir, "error", err)
		}
	}
	if o.BundleDir != "" {
		if s.shelf, err = execache.OpenShelf(o.BundleDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("executables of the bundle not used", "dir", o.BundleDir, "error", err)
		}
	}
	switch {
	case s.cache != nil:
		s.plugin, err = s.cache.FileDigest(plugin)
	case s.shelf != nil:
		s.plugin, err = execache.FileDigest(plugin)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// bind completes the keys with what the device says.
func (s *store) bind(d storer, o *Options, threads pinning) {
	s.device = d
	s.keys = keysOf(s.plugin, d.identify(), o.CreateOptions, threads.count)
	s.announce()
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

func (s *store) refused() bool {
	_, refused := refusals.Load(s.plugin)
	return refused
}

// load returns the program of a bucket and where it was, or nil if there is none that works. What this machine compiled comes
// first: it did so although the bundle was there, or has proved it.
func (s *store) load(bucket int, text []byte) (runner, Source) {
	if s == nil {
		return nil, SourceNone
	}
	if r := s.loadCached(bucket, text); r != nil {
		return r, SourceCache
	}
	if r := s.loadBundled(bucket, text); r != nil {
		return r, SourceBundle
	}
	return nil, SourceNone
}

func (s *store) loadCached(bucket int, text []byte) runner {
	if s.cache == nil || s.refused() {
		return nil
	}
	entry, err := s.cache.Load(s.model, keyFor(s.keys.own, bucket, text))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r runner
	if err == nil {
		r, err = s.try(bucket, entry)
	}
	if err != nil {
		s.log.Warn("cached executable not used", "rows", bucket, "dir", s.cache.Dir(), "error", err)
		return nil
	}
	return r
}

// try makes a program of an image. One of few rows has been run on zeros by then. A larger one is only known to have the right
// form and to be undamaged; its first run is a trial too.
func (s *store) try(bucket int, entry *execache.Entry) (runner, error) {
	trial, err := entry.Try()
	if err != nil {
		return nil, err
	}
	run := bucket <= provenRows
	r, err := s.device.load(bucket, entry.Image, run)
	if err != nil {
		trial.Reject()
		return nil, err
	}
	trial.Accept()
	if run {
		return r, nil
	}
	entry.Image = nil
	return &unproven{runner: r, entry: entry}, nil
}

// save makes an entry of a compiled program. That it cannot is no reason not to serve.
func (s *store) save(bucket int, text []byte, r runner) {
	if s == nil || s.cache == nil || s.refused() {
		return
	}
	image, err := s.device.serialize(r)
	if err != nil {
		if _, known := refusals.LoadOrStore(s.plugin, true); !known {
			s.log.Warn("plugin does not serialize executables, they will be compiled at every start", "device", s.device.describe(), "error", err)
		}
		return
	}
	if err := s.cache.Store(s.model, keyFor(s.keys.own, bucket, text), image); err != nil {
		s.log.Warn("executable not cached", "bucket", bucket, "dir", s.cache.Dir(), "error", err)
	}
}

func (s *store) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.cache != nil {
		errs = append(errs, s.cache.Close())
	}
	if s.shelf != nil {
		errs = append(errs, s.shelf.Close())
	}
	return errors.Join(errs...)
}
