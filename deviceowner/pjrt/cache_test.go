package pjrt_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/dtype"
)

// network is a dense layer with a non-linear end, so that the order of its sums shows in the scores.
const network = `module @net { func.func public @main(%w: tensor<128x32xf32>, %x: tensor<@B@x128xf32>, %v: tensor<32x1xf32>) -> tensor<@B@x1xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<@B@x128xf32>, tensor<128x32xf32>) -> tensor<@B@x32xf32>
  %t = stablehlo.tanh %h : tensor<@B@x32xf32>
  %o = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<@B@x32xf32>, tensor<32x1xf32>) -> tensor<@B@x1xf32>
  %s = stablehlo.logistic %o : tensor<@B@x1xf32>
  return %s : tensor<@B@x1xf32>
} }`

func noise(seed uint64, count int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([]float32, count)
	for i := range values {
		values[i] = r.Float32() - 0.5
	}
	return floats(values...)
}

func networkOptions(t testing.TB, dir string) pjrt.Options {
	return pjrt.Options{
		PluginPath: pjrttest.CPU(t), Platform: "cpu", Program: pjrttest.Batch(network),
		Inputs: []pjrt.Input{
			{Weight: &pjrt.Weight{Name: "w", DType: dtype.Float32, Shape: []int{128, 32}, Data: noise(1, 128*32)}},
			{Packed: 0},
			{Weight: &pjrt.Weight{Name: "v", DType: dtype.Float32, Shape: []int{32, 1}, Data: noise(2, 32)}},
		},
		Arrays: []pjrt.Array{{DType: dtype.Float32, Stride: 512}}, ScoreBytes: 4,
		CacheDir: dir, Model: "net",
	}
}

var cacheBuckets = []int{1, 8, 64, 256} // the last one is not run on zeros when it comes from the cache

// networkScores scores a batch of noise in every bucket.
func networkScores(t testing.TB, e *pjrt.Executor, buckets []int) (all []byte) {
	t.Helper()
	for _, bucket := range buckets {
		b := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{noise(uint64(bucket), bucket*128)}, Scores: make([]byte, bucket*4)}
		score(t, e, b)
		all = append(all, b.Scores...)
	}
	return all
}

// started opens an executor whose buckets are ready and returns what was logged and how many were compiled.
func started(t testing.TB, o pjrt.Options, buckets []int) (e *pjrt.Executor, logged string, compiled uint64) {
	t.Helper()
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	e = open(t, o, buckets...)
	compiled, _ = e.Compiles()
	return e, log.String(), compiled
}

func TestWarmStartCompilesNothingAndScoresTheSame(t *testing.T) {
	o := networkOptions(t, filepath.Join(t.TempDir(), "cache"))
	cold, _, compiled := started(t, o, cacheBuckets)
	if compiled != 4 {
		t.Errorf("cold: got %d compiles, want 4", compiled)
	}
	want := networkScores(t, cold, cacheBuckets)
	for name, expected := range map[string][]int{"expected": cacheBuckets, "not expected": nil, "others expected": {8, 2, 8, 0, -1, 512}} {
		o.Buckets = expected
		warm, logged, compiled := started(t, o, cacheBuckets)
		if compiled != 0 || strings.Count(logged, "source=cache") != 4 {
			t.Errorf("%s: got %d compiles and log %s", name, compiled, logged)
		}
		for range 2 { // the second time every program has run
			if got := networkScores(t, warm, cacheBuckets); !bytes.Equal(got, want) {
				t.Errorf("%s: scores differ from those of the compiled program", name)
			}
		}
	}
}

func TestEntriesThatCannotBeTrustedAreCompiledAnew(t *testing.T) {
	pristine := filepath.Join(t.TempDir(), "cache")
	buckets := []int{1, 8}
	cold, _, _ := started(t, networkOptions(t, pristine), buckets)
	want := networkScores(t, cold, buckets)
	type entry struct {
		path  string
		bytes []byte
	}
	for name, c := range map[string]struct {
		damage   func(one, eight entry) error // of buckets 1 and 8
		compiles uint64
	}{
		"one bit":      {func(e, _ entry) error { e.bytes[len(e.bytes)/2] ^= 4; return os.WriteFile(e.path, e.bytes, 0o600) }, 1},
		"cut":          {func(e, _ entry) error { return os.WriteFile(e.path, e.bytes[:len(e.bytes)-1], 0o600) }, 1},
		"empty":        {func(e, _ entry) error { return os.WriteFile(e.path, nil, 0o600) }, 1},
		"zeros":        {func(e, _ entry) error { return os.WriteFile(e.path, make([]byte, len(e.bytes)), 0o600) }, 1},
		"others write": {func(e, _ entry) error { return os.Chmod(e.path, 0o666) }, 1},
		"another's":    {func(e, other entry) error { return os.WriteFile(e.path, other.bytes, 0o600) }, 1},
		"both cut": {func(e, other entry) error {
			return errors.Join(os.WriteFile(e.path, e.bytes[:99], 0o600), os.WriteFile(other.path, other.bytes[:20], 0o600))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			if err := os.CopyFS(dir, os.DirFS(pristine)); err != nil {
				t.Fatal(err)
			}
			o := networkOptions(t, dir)
			var entries [2]entry
			for i, pattern := range []string{"net.b1.*.exe", "net.b8.*.exe"} {
				paths, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(paths) != 1 {
					t.Fatalf("got entries %v (%v), want 1", paths, err)
				}
				b, err := os.ReadFile(paths[0])
				if err != nil {
					t.Fatal(err)
				}
				entries[i] = entry{paths[0], b}
			}
			if err := c.damage(entries[0], entries[1]); err != nil {
				t.Fatal(err)
			}
			again, logged, compiled := started(t, o, buckets)
			if compiled != c.compiles || !strings.Contains(logged, "cached executable not used") || !strings.Contains(logged, "entry is unusable") {
				t.Errorf("got %d compiles and log %s", compiled, logged)
			}
			if got := networkScores(t, again, buckets); !bytes.Equal(got, want) {
				t.Error("scores differ")
			}
			if _, logged, compiled := started(t, o, buckets); compiled != 0 {
				t.Errorf("after the repair: got %d compiles and log %s", compiled, logged)
			}
		})
	}
}

func TestWhatTheCompilerLooksAtIsPartOfTheKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	buckets := []int{8}
	started(t, networkOptions(t, dir), buckets)
	o := networkOptions(t, dir)
	o.Inputs[0].Weight.Data = noise(3, 128*32) // arguments of the program, not part of it
	if _, logged, compiled := started(t, o, buckets); compiled != 0 {
		t.Errorf("weights: got %d compiles and log %s", compiled, logged)
	}
	for name, change := range map[string]func(*pjrt.Options){
		"program": func(o *pjrt.Options) { o.Program = pjrttest.Batch(strings.Replace(network, "tanh", "logistic", 1)) },
		"client":  func(o *pjrt.Options) { o.CreateOptions = map[string]any{"cpu_device_count": int64(2)} },
		"flags":   func(*pjrt.Options) { t.Setenv("LIBTPU_INIT_ARGS", "--x") },
		"model":   func(o *pjrt.Options) { o.Model = "other" },
	} {
		o := networkOptions(t, dir)
		change(&o)
		if _, logged, compiled := started(t, o, buckets); compiled != 1 {
			t.Errorf("%s: got %d compiles and log %s", name, compiled, logged)
		}
		if err := os.Unsetenv("LIBTPU_INIT_ARGS"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCacheThatCannotBeUsedIsNoReasonNotToServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, logged, compiled := started(t, networkOptions(t, dir), []int{1})
	if compiled != 1 || !strings.Contains(logged, "executables are not cached") {
		t.Errorf("got %d compiles and log %s", compiled, logged)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("got %v (%v), want nothing written", entries, err)
	}
}

func TestCacheDirOfASetting(t *testing.T) {
	t.Setenv("CACHE_DIRECTORY", "/var/cache/rankd:/other")
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	for setting, want := range map[string]string{"": "", "/a": "/a", pjrt.AutoCache: "/var/cache/rankd/executables"} {
		if got := pjrt.CacheDir(setting); got != want {
			t.Errorf("%q: got %q, want %q", setting, got, want)
		}
	}
	t.Setenv("CACHE_DIRECTORY", "")
	if got := pjrt.CacheDir(pjrt.AutoCache); got != filepath.Join(home, "rankd", "executables") {
		t.Errorf("without systemd: got %q", got)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := pjrt.CacheDir(pjrt.AutoCache); got != "" {
		t.Errorf("without a home: got %q", got)
	}
}

const childVariable = "RANKD_TEST_CACHE_CHILD"

// TestChild is not a test: two processes of it share a cache in the test below.
func TestChild(t *testing.T) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		t.Skip("runs as a child only")
	}
	o := networkOptions(t, dir)
	o.Buckets = cacheBuckets
	e, err := pjrt.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range cacheBuckets {
		if err := e.Compile(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	scores := networkScores(t, e, cacheBuckets)
	compiled, _ := e.Compiles()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("compiled=%d scores=%s\n", compiled, hex.EncodeToString(scores))
}

func TestTwoProcessesShareACache(t *testing.T) {
	pjrttest.CPU(t)
	dir := filepath.Join(t.TempDir(), "cache")
	var first string
	for round := range 3 {
		var children [2]*exec.Cmd
		var said [2]bytes.Buffer
		for i := range children {
			c := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
			c.Env = append(os.Environ(), childVariable+"="+dir)
			c.Stdout, c.Stderr = &said[i], &said[i]
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			children[i] = c
		}
		for i, c := range children {
			if err := c.Wait(); err != nil {
				t.Fatalf("round %d: %v: %s", round, err, said[i].String())
			}
			_, line, _ := strings.Cut(said[i].String(), "compiled=")
			line, _, _ = strings.Cut(line, "\n")
			compiled, scores, _ := strings.Cut(line, " scores=")
			if round > 0 && compiled != "0" {
				t.Errorf("round %d: got %s compiles, want 0", round, compiled)
			}
			if first == "" {
				first = scores
			}
			if scores == "" || scores != first {
				t.Errorf("round %d: scores of the two processes differ", round)
			}
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != len(cacheBuckets)+1 { // and the plugin's digest
		t.Errorf("got files %v (%v), want an entry a bucket and a digest", names, err)
	}
}
