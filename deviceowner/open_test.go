package deviceowner

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/config"
	"rankd/internal/stats"
	"rankd/model"
	"rankd/model/demo"
)

// What a restart can't mend must end with the exit code after which there is none.
func TestPermanentErrorsOfTheStartAreBadConfiguration(t *testing.T) {
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = page.Close(), file.Close() })
	spoil := func(b *model.Bundle, rel, text string) error { return os.WriteFile(b.Path(rel), []byte(text), 0o600) }
	plugin := pjrttest.CPU(t)
	for name, change := range map[string]func(b *model.Bundle, c *Config) error{
		"no bundle":   func(_ *model.Bundle, c *Config) error { c.Model += "-gone"; return nil },
		"unknown CPU": func(_ *model.Bundle, c *Config) error { c.OwnerCPUs = []int{1 << 20}; return nil },
		"no plugin": func(b *model.Bundle, c *Config) error {
			c.Plugin = b.Path("README.md")
			return spoil(b, "README.md", "# Hello\n")
		},
		"no program": func(b *model.Bundle, _ *Config) error { return os.Remove(b.Path(b.Manifest.Program.Files[0].File)) },
		"bad program": func(b *model.Bundle, _ *Config) error {
			return spoil(b, b.Manifest.Program.Files[0].File, "module @x { @B@")
		},
		"no weights":     func(b *model.Bundle, _ *Config) error { return os.Remove(b.Path(b.Manifest.Program.Weights)) },
		"half a weights": func(b *model.Bundle, _ *Config) error { return os.Truncate(b.Path(b.Manifest.Program.Weights), 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			b, err := demo.Create(t.Context(), demo.Options{
				Dir: filepath.Join(t.TempDir(), "demo"), Seed: 7, MaxVocab: 5, Buckets: []int{1, 4}, MaxBatch: 4, Golden: -1, Small: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			cfg := Default()
			cfg.Model, cfg.Plugin, cfg.Executables = b.Dir, plugin, ""
			if err := change(b, &cfg); err != nil {
				t.Fatal(err)
			}
			exec, _, err := openDevice(t.Context(), &cfg, page.Owner(), slog.New(slog.DiscardHandler))
			if err == nil {
				_ = exec.Close()
			}
			if err = badIfPermanent(err); ExitCode(err) != config.ExitBadConfig {
				t.Errorf("got %v, which ends with %v, want %v", err, ExitCode(err), config.ExitBadConfig)
			}
		})
	}
	if err := badIfPermanent(errors.New("device is busy")); ExitCode(err) != config.ExitError {
		t.Errorf("a device that is busy: got %v, want %v", ExitCode(err), config.ExitError)
	}
}
