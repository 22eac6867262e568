package deviceowner

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt/execache"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/stats"
	"rankd/model"
	"rankd/model/demo"
)

func TestOwnerTellsWhichProgramsCameFromTheBundle(t *testing.T) {
	plugin := pjrttest.CPU(t)
	b, err := demo.Create(t.Context(), demo.Options{
		Dir: filepath.Join(t.TempDir(), "demo"), Seed: 7, MaxVocab: 5, Buckets: []int{1, 4, 8}, MaxBatch: 8, Golden: -1, Small: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	storeExecutables(t, b, plugin, 1, 8)
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = page.Close(), file.Close() })
	cfg := Default()
	cfg.Model, cfg.Plugin, cfg.Executables = b.Dir, plugin, filepath.Join(t.TempDir(), "cache")
	start := func() (logged string, programs []stats.Program) {
		t.Helper()
		var log bytes.Buffer
		exec, buckets, err := openDevice(t.Context(), &cfg, page.Owner(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := exec.Close(); err != nil {
			t.Error(err)
		}
		for i, n := range buckets { // as the loop does
			page.Owner().SetBucketRows(i, n)
		}
		return log.String(), page.Owner().Programs()
	}
	for _, c := range []struct {
		ready  string
		ignore bool
		want   []stats.Source
	}{
		{`msg="buckets ready" buckets=3 compiled=1 from_bundle="[1 8]" from_compiler=[4] seconds=`, false, []stats.Source{stats.SourceBundle, stats.SourceCompiler, stats.SourceBundle}},
		{`msg="buckets ready" buckets=3 compiled=0 from_bundle="[1 8]" from_cache=[4] seconds=`, false, []stats.Source{stats.SourceBundle, stats.SourceCache, stats.SourceBundle}},
		{`msg="buckets ready" buckets=3 compiled=2 from_cache=[4] from_compiler="[1 8]" seconds=`, true, []stats.Source{stats.SourceCompiler, stats.SourceCache, stats.SourceCompiler}},
	} {
		cfg.IgnoreBundled = c.ignore
		logged, programs := start()
		var got []stats.Source
		for _, p := range programs {
			got = append(got, p.Source)
		}
		if !strings.Contains(logged, c.ready) || !slices.Equal(got, c.want) {
			t.Errorf("got sources %v and log %s, want %v and %s", got, logged, c.want, c.ready)
		}
	}
}

// storeExecutables compiles some buckets for this device and puts them into the bundle.
func storeExecutables(t *testing.T, b *model.Bundle, plugin string, buckets ...int) {
	t.Helper()
	exec, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: "cpu", Plugin: plugin})
	if err != nil {
		t.Fatal(err)
	}
	f, err := execache.Fill(b.Path(model.ExecutablesDir), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range buckets {
		if err := exec.Compile(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		k, image, err := exec.(device.Exporter).Export(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Add(b.Manifest.Name, filepath.Base(plugin), "", k, image); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := exec.Close(); err != nil {
		t.Error(err)
	}
}
