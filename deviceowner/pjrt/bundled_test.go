package pjrt_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/deviceowner/pjrt/pjrttest"
)

// shipped compiles buckets and puts them on a shelf, each with its key as change makes it. It returns the scores too.
func shipped(t *testing.T, dir string, buckets []int, change func(*execache.Key)) (scores []byte) {
	t.Helper()
	e, _, _ := started(t, networkOptions(t, ""), buckets)
	f, err := execache.Fill(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range buckets {
		k, image, err := e.Export(b)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&k)
		}
		if _, err := f.Add("net", "plugin.so", "", k, image); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return networkScores(t, e, buckets)
}

func TestExecutablesOfTheBundleAreLoadedAndScoreTheSame(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "executables")
	want := shipped(t, bundle, cacheBuckets, nil)
	for name, cache := range map[string]string{"with a cache": filepath.Join(t.TempDir(), "cache"), "without": ""} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // a start changes nothing for the next one
				o := networkOptions(t, cache)
				o.BundleDir, o.Buckets = bundle, cacheBuckets
				e, logged, compiled := started(t, o, cacheBuckets)
				if compiled != 0 || strings.Count(logged, "source=bundle") != len(cacheBuckets) {
					t.Errorf("got %d compiles and log %s", compiled, logged)
				}
				for _, b := range cacheBuckets {
					if got := e.Source(b); got != pjrt.SourceBundle {
						t.Errorf("bucket %d: got source %q, want the bundle", b, got)
					}
				}
				if got := e.Source(1000); got != pjrt.SourceNone {
					t.Errorf("a bucket that is not ready: got source %q", got)
				}
				for range 2 { // the second time every program has run
					if got := networkScores(t, e, cacheBuckets); !bytes.Equal(got, want) {
						t.Error("scores differ from those of the compiled program")
					}
				}
			}
		})
	}
}

func TestWhatIsCompiledHereComesBeforeTheBundle(t *testing.T) {
	o := networkOptions(t, filepath.Join(t.TempDir(), "cache"))
	started(t, o, []int{8})
	o.BundleDir = filepath.Join(t.TempDir(), "executables")
	shipped(t, o.BundleDir, []int{1, 8}, nil)
	e, logged, compiled := started(t, o, []int{1, 8, 64})
	if compiled != 1 || e.Source(1) != pjrt.SourceBundle || e.Source(8) != pjrt.SourceCache || e.Source(64) != pjrt.SourceCompiler {
		t.Errorf("got %d compiles, sources %q, %q, %q, log %s", compiled, e.Source(1), e.Source(8), e.Source(64), logged)
	}
	if !strings.Contains(logged, "bundle has no executable of this batch size") {
		t.Errorf("got log %s, want a line about the batch size that the bundle lacks", logged)
	}
}

func TestExecutablesOfTheBundleThatDoNotFitAreCompiledWithAReason(t *testing.T) {
	buckets := []int{8}
	for name, c := range map[string]struct {
		change func(*execache.Key)
		want   string
	}{
		"plugin":    {func(k *execache.Key) { k.Plugin = strings.Repeat("0", 64) }, "plugin file: got 000000000000, want "},
		"version":   {func(k *execache.Key) { k.Version = "another" }, "version: got "},
		"interface": {func(k *execache.Key) { k.API = "0.1" }, "PJRT C API: got 0.1, want "},
		"device":    {func(k *execache.Key) { k.Device = "another" }, "kind of device: got "},
		"processor": {func(k *execache.Key) { k.Host = strings.Repeat("1", 64) }, "processor: got 111111111111, want "},
		"options":   {func(k *execache.Key) { k.Options = strings.Repeat("2", 64) }, "options: got 222222222222, want "},
		"program":   {func(k *execache.Key) { k.Program = strings.Repeat("3", 64) }, "program: got 333333333333, want "},
		"platform":  {func(k *execache.Key) { k.Platform = "tpu" }, "bundle has no executables for this platform"},
	} {
		t.Run(name, func(t *testing.T) {
			o := networkOptions(t, "")
			o.BundleDir = filepath.Join(t.TempDir(), "executables")
			want := shipped(t, o.BundleDir, buckets, c.change)
			e, logged, compiled := started(t, o, buckets)
			if compiled != 1 || !strings.Contains(logged, c.want) || e.Source(8) != pjrt.SourceCompiler {
				t.Errorf("got %d compiles and log %s, want one and %q", compiled, logged, c.want)
			}
			if !bytes.Equal(networkScores(t, e, buckets), want) {
				t.Error("scores differ")
			}
		})
	}
}

func TestDamagedExecutablesOfTheBundleAreNamedAndCompiled(t *testing.T) {
	buckets := []int{1, 8}
	pristine := filepath.Join(t.TempDir(), "executables")
	want := shipped(t, pristine, buckets, nil)
	for name, c := range map[string]struct {
		damage   func(dir, first string) error
		compiles uint64
	}{
		"one bit": {func(_, first string) error {
			b, err := os.ReadFile(first)
			if err == nil {
				b[len(b)/2] ^= 4
				err = os.WriteFile(first, b, 0o644)
			}
			return err
		}, 1},
		"missing":      {func(_, first string) error { return os.Remove(first) }, 1},
		"others write": {func(_, first string) error { return os.Chmod(first, 0o666) }, 1},
		"list": {func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, execache.ListFile), []byte("{"), 0o644)
		}, 2},
		"folder":  {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, 2},
		"no list": {func(dir, _ string) error { return os.Remove(filepath.Join(dir, execache.ListFile)) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "executables")
			if err := os.CopyFS(dir, os.DirFS(pristine)); err != nil {
				t.Fatal(err)
			}
			paths, err := filepath.Glob(filepath.Join(dir, "net.b1.*.exe"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("got entries %v (%v), want 1", paths, err)
			}
			if err := c.damage(dir, paths[0]); err != nil {
				t.Fatal(err)
			}
			o := networkOptions(t, "")
			o.BundleDir = dir
			e, logged, compiled := started(t, o, buckets)
			named := filepath.Base(paths[0])
			switch {
			case name == "no list": // as if there were no executables
				named = ""
			case c.compiles == 2:
				named = dir
			}
			if compiled != c.compiles || !strings.Contains(logged, named) || named != "" && !strings.Contains(logged, "of the bundle not used") {
				t.Errorf("got %d compiles and log %s, want %d and %s named", compiled, logged, c.compiles, named)
			}
			if !bytes.Equal(networkScores(t, e, buckets), want) {
				t.Error("scores differ")
			}
		})
	}
}

func TestExportNeedsACompiledBucketAndABackendThatSerializes(t *testing.T) {
	o := networkOptions(t, "")
	e, _, _ := started(t, o, []int{1})
	if _, _, err := e.Export(2); !errors.Is(err, pjrt.ErrNotCompiled) {
		t.Errorf("got %v, want ErrNotCompiled", err)
	}
	binding, _, _ := started(t, pjrt.WithBackend(o, pjrt.BackendGoXLA), []int{1})
	if _, _, err := binding.Export(1); !errors.Is(err, executor.ErrPermanent) || !strings.Contains(err.Error(), "serializes nothing") {
		t.Errorf("go-xla: got %v", err)
	}
}

func TestPluginThatNeedsADeviceSaysSo(t *testing.T) {
	_, err := pjrt.OpenTarget(pjrt.TargetOptions{PluginPath: pjrttest.CPU(t), Platform: "cpu", Topology: "v6e:1x1", ScoreBytes: 4})
	if !errors.Is(err, executor.ErrPermanent) || !strings.Contains(err.Error(), "cannot compile without a device") || !strings.Contains(err.Error(), "without a topology") {
		t.Errorf("got %v", err)
	}
	if alive := pjrt.ObjectsAlive()["topologies"]; alive != 0 {
		t.Errorf("got %d topologies left", alive)
	}
}
