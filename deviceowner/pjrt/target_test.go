package pjrt

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/execache"
)

func TestTopologyIsOneHost(t *testing.T) {
	for _, c := range []struct {
		platform, topology string
		bounds             []int64
	}{
		{"tpu", "v6e:1x1", []int64{1, 1, 1}},
		{"tpu", "v6e:2x2", []int64{2, 2, 1}},
		{"tpu", "v5p:2x2x1", []int64{2, 2, 1}},
		{"tpu", "v6e:8", []int64{8, 1, 1}},
		{"tpu", "v5e-4", nil},
		{"tpu", "v6e:", nil},
		{"tpu", "v6e:0x1", nil},
		{"tpu", "v6e:1x1x1x1", nil},
		{"tpu", "v6e:1y1", nil},
		{"tpu", "", nil},
		{"cuda", "v6e:1x1", nil},
	} {
		got, _ := topologyOptions(c.platform, c.topology)["chips_per_host_bounds"].([]int64)
		if !slices.Equal(got, c.bounds) {
			t.Errorf("%s %q: got %v, want %v", c.platform, c.topology, got, c.bounds)
		}
	}
}

// aheadDevice is a device for which an executable was compiled elsewhere.
func aheadDevice() *keepingDevice {
	return &keepingDevice{identity: identity{API: "0.1", Platform: "test", Version: "of the driver", Kind: "chip", Devices: 4, Options: []byte("o")}}
}

// shelve puts "image" on a shelf for each bucket, as it would be compiled for another device's topology.
func shelve(t *testing.T, plugin string, id identity, buckets ...int) (dir string) {
	t.Helper()
	digest, err := execache.FileDigest(plugin)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "executables")
	f, err := execache.Fill(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	id.Version = "of the topology"
	for _, b := range buckets {
		if _, err := f.Add("", "plugin.so", "chip:2x2", keyFor(aheadKey(digest, id), b, []byte("x")), []byte("image")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExecutableForATopologyFitsDevicesOfItsKindAndNumber(t *testing.T) {
	plugin := pluginFile(t, t.Name())
	dir := shelve(t, plugin, aheadDevice().identity, 2)
	for name, c := range map[string]struct {
		change func(*identity)
		fits   bool
	}{
		"same":         {func(*identity) {}, true},
		"other driver": {func(id *identity) { id.Version = "newer" }, true},
		"other kind":   {func(id *identity) { id.Kind = "faster chip" }, false},
		"fewer":        {func(id *identity) { id.Devices = 1 }, false},
		"other API":    {func(id *identity) { id.API = "0.2" }, false},
		"options":      {func(id *identity) { id.Options = []byte("p") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			d := aheadDevice()
			c.change(&d.identity)
			e := keepingWith(t, d, "", dir, plugin, slog.New(slog.NewTextHandler(&log, nil)))
			compileAll(t, e, 2)
			if total, _ := e.Compiles(); (total == 0) != c.fits || !c.fits && !strings.Contains(log.String(), "it does not fit") {
				t.Errorf("got %d compiles and log %s, want a fit %v", total, log.String(), c.fits)
			}
		})
	}
}

func TestI7ForeignProgramsThatFailAreNotTriedAgain(t *testing.T) {
	const small, large = provenRows, provenRows + 1
	quiet := slog.New(slog.DiscardHandler)
	sources := func(e *Executor) map[int]Source { return maps.Clone(e.sources) }
	t.Run("at load", func(t *testing.T) {
		plugin, cache := pluginFile(t, t.Name()), filepath.Join(t.TempDir(), "cache")
		dir := shelve(t, plugin, aheadDevice().identity, small)
		spoiled := aheadDevice()
		spoiled.spoiled = status(13, "of another chip")
		e := keepingWith(t, spoiled, cache, dir, plugin, quiet)
		compileAll(t, e, small)
		if got := sources(e); got[small] != SourceCompiler {
			t.Errorf("got %v, want it compiled", got)
		}
		next := keepingWith(t, aheadDevice(), cache, dir, plugin, quiet)
		compileAll(t, next, small)
		if got := sources(next); got[small] != SourceCache {
			t.Errorf("the next start: got %v, want what was compiled", got)
		}
	})
	t.Run("at the first run", func(t *testing.T) {
		plugin, cache := pluginFile(t, t.Name()), filepath.Join(t.TempDir(), "cache")
		dir := shelve(t, plugin, aheadDevice().identity, small, large)
		bad := aheadDevice()
		bad.err = func(bucket int) error {
			if bucket == large {
				return status(13, "bad code")
			}
			return nil
		}
		e := keepingWith(t, bad, cache, dir, plugin, quiet)
		compileAll(t, e, small, large)
		done := make(chan error, 1)
		b := &executor.Batch{Bucket: large, Rows: 1, Arrays: [][]byte{make([]byte, large*64)}, Scores: make([]byte, large*4)}
		if err := e.Launch(b, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, executor.ErrDead) {
			t.Errorf("got %v, want ErrDead", err)
		}
		var log bytes.Buffer
		next := keepingWith(t, aheadDevice(), cache, dir, plugin, slog.New(slog.NewTextHandler(&log, nil)))
		compileAll(t, next, small, large)
		if got := sources(next); got[small] != SourceBundle || got[large] != SourceCompiler || !strings.Contains(log.String(), errFailedBefore.Error()) {
			t.Errorf("the next process: got %v and log %s", got, log.String())
		}
	})
	t.Run("without a cache every program runs before it serves", func(t *testing.T) {
		plugin := pluginFile(t, t.Name())
		d := aheadDevice()
		e := keepingWith(t, d, "", shelve(t, plugin, aheadDevice().identity, small, large), plugin, quiet)
		compileAll(t, e, small, large)
		if !slices.Equal(d.loads, []bool{true, true}) {
			t.Errorf("got runs on zeros %v, want both", d.loads)
		}
	})
}
