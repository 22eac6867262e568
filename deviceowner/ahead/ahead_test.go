package ahead

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/model"
	"rankd/model/demo"
)

var buckets = []int{1, 4, 32}

func smallDemo(t *testing.T) *model.Bundle {
	t.Helper()
	b, err := demo.Create(t.Context(), demo.Options{
		Dir: filepath.Join(t.TempDir(), "demo"), Seed: 7, MaxVocab: 50, Buckets: buckets, MaxBatch: 32, Golden: -1, Small: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func options(t *testing.T, b *model.Bundle, mode string) Options {
	return Options{Bundle: b, Settings: Settings{Platform: "cpu", Plugin: pjrttest.CPU(t)}, Command: command(b.Dir, mode)}
}

// served opens the bundle's device as a server does, without a cache, and says what was compiled.
func served(t *testing.T, b *model.Bundle, threads int) (compiled uint64, sources []pjrt.Source) {
	t.Helper()
	e, err := device.Open(b, device.Options{
		Kind: device.KindPJRT, Platform: "cpu", Plugin: pjrttest.CPU(t), Threads: threads, Bundled: true, Buckets: buckets,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range buckets {
		if err := e.Compile(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, e.(device.Sourcer).Source(n))
	}
	compiled, _ = e.(device.Counter).Compiles()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	return compiled, sources
}

func TestServerLoadsWhatWasCompiledAheadOfTime(t *testing.T) {
	b := smallDemo(t)
	o := options(t, b, "")
	var told []Step
	o.Progress = func(s Step) { told = append(told, s) }
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Items) != 3 || report.Kept.Others != 0 || len(report.Kept.Buckets) != 0 || !strings.HasPrefix(report.Target, "pjrt cpu") {
		t.Errorf("got %+v, want three entries for the cpu", report)
	}
	if len(told) != 4 || told[0].Target != report.Target {
		t.Fatalf("got steps %+v, want the target and three batch sizes", told)
	}
	for i, s := range told[1:] {
		if s.Bucket != buckets[i] || s.Bytes == 0 || s.Elapsed <= 0 {
			t.Errorf("got step %+v, want batch size %d ready", s, buckets[i])
		}
	}
	if compiled, sources := served(t, b, 0); compiled != 0 || slices.ContainsFunc(sources, func(s pjrt.Source) bool { return s != pjrt.SourceBundle }) {
		t.Errorf("got %d compiles and sources %v, want all from the bundle", compiled, sources)
	}
	stored, err := Check(b)
	if err != nil || len(stored) != 1 || !slices.Equal(stored[0].Buckets, buckets) || stored[0].Platform != "cpu" || stored[0].Bytes == 0 {
		t.Errorf("got %+v, %v", stored, err)
	}
	if err := b.VerifyDigests(t.Context(), nil); err != nil {
		t.Errorf("the bundle's own files: %v", err)
	}

	o.Settings.Threads = 1 // other options, where there are more processors
	again, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if compiled, _ := served(t, b, 1); compiled != 0 || again.Kept.Others != 0 && again.Kept.Others != 3 {
		t.Errorf("for one thread: got %d compiles, and %+v of before", compiled, again.Kept)
	}
	o.Settings.Buckets = []int{4}
	if again, err = Run(t.Context(), o); err != nil || !slices.Equal(again.Kept.Buckets, []int{1, 32}) || len(again.Items) != 1 {
		t.Fatalf("one batch size once more: got %+v, %v, want the others kept", again, err)
	}
	if compiled, _ := served(t, b, 1); compiled != 0 {
		t.Errorf("one batch size once more: got %d compiles, want all from the bundle", compiled)
	}
	o.Fresh = true
	if again, err = Run(t.Context(), o); err != nil || again.Kept.Others != 0 || len(again.Kept.Buckets) != 0 {
		t.Fatalf("fresh: got %+v, %v", again, err)
	}
	if compiled, sources := served(t, b, 1); compiled != 2 || sources[1] != pjrt.SourceBundle {
		t.Errorf("one batch size: got %d compiles and sources %v", compiled, sources)
	}
}

// nothingStored fails the test if there is anything in the bundle's folder of executables.
func nothingStored(t *testing.T, b *model.Bundle) {
	t.Helper()
	if _, err := os.Stat(b.Path(model.ExecutablesDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no folder of executables", err)
	}
}

func TestI2ChildThatCrashesIsAnErrorWithItsLastWords(t *testing.T) {
	b := smallDemo(t)
	_, err := Run(t.Context(), options(t, b, "crash"))
	for _, want := range []string{"compile bucket 4", "signal: killed", "F0000 check failed: something"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	nothingStored(t, b)
}

func TestI1RunThatIsCancelledStoresNothing(t *testing.T) {
	b := smallDemo(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, b, "hang")
	o.Progress = func(Step) { cancel() } // at the target, before the batch size that hangs
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	nothingStored(t, b)
}

func TestChildThatLingersIsNotWaitedFor(t *testing.T) {
	b := smallDemo(t)
	o := options(t, b, "linger")
	o.Settings.Buckets = []int{1}
	if report, err := Run(t.Context(), o); err != nil || len(report.Items) != 1 {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	b := smallDemo(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no topology on cpu": {func(o *Options) { o.Settings.Topology = "v6e:1x1" }, "cannot compile without a device"},
		"platform":           {func(o *Options) { o.Settings.Platform = "tpu" }, `got platform "cpu", want "tpu"`},
		"unknown platform":   {func(o *Options) { o.Settings.Platform = "npu" }, "check --platform"},
		"buckets":            {func(o *Options) { o.Settings.Buckets = []int{4, 4} }, "check --buckets: got [4 4]"},
		"plugin":             {func(o *Options) { o.Settings.Plugin = "/nowhere/plugin.so" }, `open plugin "/nowhere/plugin.so"`},
		"command":            {func(o *Options) { o.Command = func(Settings) []string { return []string{"/nowhere/rankd"} } }, "start compiler"},
		"a bad program": {func(o *Options) {
			other := *b
			other.Dir = filepath.Join(t.TempDir(), "bad")
			if err := os.CopyFS(other.Dir, os.DirFS(b.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(other.Path(b.Manifest.Program.Files[0].File), []byte("module @x { @B@"), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Bundle, o.Command = &other, command(other.Dir, "")
		}, "compile bucket 1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, b, "")
			c.change(&o)
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			nothingStored(t, o.Bundle)
		})
	}
}

func TestChildrenForTPUsDoNotAskAMetadataServer(t *testing.T) {
	b := smallDemo(t)
	for topology, want := range map[string]string{"v6e:1x1": "skip=1 log=disabled", "": "skip= log="} {
		o := options(t, b, "environment")
		o.Settings.Platform, o.Settings.Topology = "tpu", topology // the plugin's file is not looked into
		if _, err := Run(t.Context(), o); err == nil || err.Error() != want {
			t.Errorf("topology %q: got %v, want %s", topology, err, want)
		}
	}
}

func TestCheckNamesWhatIsDamagedOrStale(t *testing.T) {
	b := smallDemo(t)
	if stored, err := Check(b); err != nil || stored != nil {
		t.Errorf("a bundle without executables: got %v, %v", stored, err)
	}
	if _, err := Run(t.Context(), options(t, b, "")); err != nil {
		t.Fatal(err)
	}
	program := b.Path(b.Manifest.Program.Files[0].File)
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(b); err == nil || strings.Count(err.Error(), "compile it again") != 3 {
		t.Errorf("another program: got %v, want three errors", err)
	}
	if compiled, _ := served(t, b, 0); compiled != 3 {
		t.Errorf("another program: got %d compiles, want 3", compiled)
	}
	if err := os.WriteFile(program, text, 0o644); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(b.Path(model.ExecutablesDir), "*.b4.*.exe"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("got %v, %v, want one entry", paths, err)
	}
	if err := os.Truncate(paths[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(b); !errors.Is(err, execache.ErrUnusable) || !strings.Contains(err.Error(), paths[0]) {
		t.Errorf("a damaged one: got %v, want its name", err)
	}
	if compiled, _ := served(t, b, 0); compiled != 1 {
		t.Errorf("a damaged one: got %d compiles, want 1", compiled)
	}
}
