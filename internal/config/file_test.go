package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/pflag"
)

// withFile is a set of flags over a struct, with the flag that names a file.
func withFile(t testing.TB, c any, text string) *pflag.FlagSet {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rankd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := struct {
		Path string `flag:"config" file:"no" help:"file"`
	}{path}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	Bind(fs, &file)
	Bind(fs, c)
	return fs
}

func TestI2PrecedenceIsFlagEnvironmentFileDefault(t *testing.T) {
	t.Setenv("RANKD_N64", "2")
	t.Setenv("RANKD_U32", "2")
	t.Setenv("RANKD_LABELS", "e,f")
	c := sample{Mode: "sim", Labels: []string{"x"}, CPUs: []int{9}, Limit: 4096}
	fs := withFile(t, &c, "# comment\nn64: 1\nu32: 1\nname: from file\nlabels: [a, b]\ncpus: [1, 2]\n")
	if err := fs.Parse([]string{"--n64=3"}); err != nil {
		t.Fatal(err)
	}
	origins, err := Fill(fs)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{N64: 3, U32: 2, Name: "from file", Mode: "sim", Labels: []string{"e", "f"}, CPUs: []int{1, 2}, Limit: 4096}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
	file := fs.Lookup("config").Value.String()
	for name, want := range map[string]string{
		"n64": "flag, over RANKD_N64 and " + file + ":2", "u32": "RANKD_U32, over " + file + ":3", "name": file + ":4", "limit": "default",
		"labels": "RANKD_LABELS, over " + file + ":5",
	} {
		if got := origins.Of(name).String(); got != want {
			t.Errorf("--%s: got origin %q, want %q", name, got, want)
		}
	}
	if f, e, l := origins.Count(FromFile), origins.Count(FromEnvironment), origins.Count(FromFlag); f != 2 || e != 2 || l != 1 {
		t.Errorf("got %d values from the file, %d from the environment, %d flags, want 2, 2, 1", f, e, l)
	}
}

func TestI4WhatAFlagOverridesMustBeRightAllTheSame(t *testing.T) {
	c := sample{}
	fs := withFile(t, &c, "n64: \"1\"\nwait: soon\n")
	if err := fs.Parse([]string{"--n64=3", "--wait=1s"}); err != nil {
		t.Fatal(err)
	}
	origins, err := Fill(fs)
	wantAll(t, err, `:1: n64: got "1", want a whole number`, `:2: wait: got "soon", want a duration`)
	if c.N64 != 3 || c.Wait != time.Second || origins.Of("n64").Source != FromFlag || origins.Of("n64").Bad {
		t.Errorf("got %+v from %v, want the flags", c, origins)
	}
}

func TestI3WhatIsWrongEverywhereIsReportedAtOnce(t *testing.T) {
	t.Setenv("RANKD_WAIT", "soon")
	c := sample{Limit: 4096}
	fs := withFile(t, &c, "limit: 2GB\nu32: 7\n")
	DeferErrors(fs)
	if err := fs.Parse([]string{"--n64=many", "--u32", "1.5", "--cpus=1", "--cpus=x", "--n64=3"}); err != nil {
		t.Fatalf("got %v from the parser, want it from Fill", err)
	}
	origins, err := Fill(fs)
	wantAll(t, err, `check --n64: got "many", want a whole number`, `check --u32: got "1.5", want a whole number`, `check --cpus: got "x"`,
		`RANKD_WAIT in the environment: got "soon"`, `:1: limit: got "2GB"`)
	if c.U32 != 0 || !origins.Of("u32").Bad || origins.Of("u32").Source != FromFlag {
		t.Errorf("got %+v and %d for --u32, want nothing of the file in place of a flag that can't be read", origins.Of("u32"), c.U32)
	}
	if err := origins.Explain(Check(&c)); err == nil || strings.Contains(err.Error(), "--wait") {
		t.Errorf("got %v, want no second word about values that could not be read", err)
	}
}

func TestErrorsAreDeferredOnlyUntilFill(t *testing.T) {
	fs := withFile(t, &sample{Wait: time.Second, Limit: 4096}, "")
	DeferErrors(fs)
	if _, err := Fill(fs); err != nil {
		t.Fatal(err)
	}
	if err := fs.Set("u32", "x"); err == nil {
		t.Error("got no error after Fill")
	}
}

func TestEnvironmentErrorsAreAllReported(t *testing.T) {
	t.Setenv("RANKD_U32", "-1")
	t.Setenv("RANKD_WAIT", "soon")
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	Bind(fs, &sample{})
	_, err := Fill(fs)
	wantAll(t, err, `RANKD_U32 in the environment: got "-1", want a whole number`, `RANKD_WAIT in the environment: got "soon", want a duration`)
}

// A file in testdata/files.td and what is said of it. "\t" and "\0" stand for these bytes.
func TestI4FilesAreReadOrRefusedWithTheirLines(t *testing.T) {
	datadriven.RunTest(t, "testdata/files.td", func(t *testing.T, d *datadriven.TestData) string {
		text := strings.NewReplacer(`\t`, "\t", `\0`, "\x00").Replace(d.Input)
		c := sample{Mode: "sim", Wait: time.Second, Limit: 4096, Inner: inner{Threads: 1}}
		fs := withFile(t, &c, text)
		origins, err := Fill(fs)
		path := fs.Lookup("config").Value.String()
		var out strings.Builder
		for _, e := range append(Leaves(err), Leaves(origins.Explain(Check(&c)))...) {
			fmt.Fprintln(&out, strings.ReplaceAll(e.Error(), path, "FILE"))
		}
		for _, m := range origins.Idle(fs) {
			fmt.Fprintln(&out, "idle:", strings.ReplaceAll(m, path, "FILE"))
		}
		out.WriteString(strings.ReplaceAll(Effective([]Section{{"Sample", &c}}, origins, false), path, "FILE"))
		return out.String()
	})
	if rewriting := flag.Lookup("rewrite"); rewriting != nil && rewriting.Value.String() == "true" {
		t.Log("look at what was written")
	}
}

func TestMissingFileAndFolderAreErrors(t *testing.T) {
	for _, path := range []string{"/nowhere/rankd.yaml", t.TempDir()} {
		fs := withFile(t, &sample{}, "")
		if err := fs.Set("config", path); err != nil {
			t.Fatal(err)
		}
		_, err := Fill(fs)
		wantAll(t, err, "configuration file", path)
	}
}

func TestHugeFileIsRefused(t *testing.T) {
	_, err := Fill(withFile(t, &sample{}, strings.Repeat("# nothing\n", maxFileBytes/10+1)))
	wantAll(t, err, "more than 1048576 bytes")
}

// uncommented is an example file with every setting taken in.
func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if len(line) > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z' {
			line = line[1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestI5WrittenFilesReadBackAsTheyWere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := newRandom(seed)
	for range 300 {
		want := randomSample(r)
		want.Name, want.Mode = strings.ToValidUTF8(want.Name, ""), "sim"
		want.Secret = 0 // hidden
		for _, text := range []string{
			uncommented(Example([]Section{{"Sample", &want}})),
			Effective([]Section{{"Sample", &want}}, Origins{}, true),
		} {
			got := sample{Labels: []string{"old"}, CPUs: []int{77}}
			if _, err := Fill(withFile(t, &got, text)); err != nil {
				t.Fatalf("seed %d: %v in\n%s", seed, err, text)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %+v, want %+v from\n%s", seed, got, want, text)
			}
		}
	}
}

func TestExampleChangesNothing(t *testing.T) {
	c := sample{Mode: "sim", Labels: []string{"x"}}
	want := c
	origins, err := Fill(withFile(t, &c, Example([]Section{{"Sample", &sample{Mode: "pjrt"}}})))
	if err != nil || len(origins) != 0 || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v from %v, %v, want %+v from nowhere", c, origins, err, want)
	}
}

func TestNearestFindsWhatWasMeant(t *testing.T) {
	names := []string{"frontends", "frontend-threads", "max-request-rows", "max-request-bytes", "http", "model", "plugin", "platform"}
	for name, want := range map[string]string{
		"frontend": "frontends", "frontedns": "frontends", "max_request_rows": "max-request-rows", "--HTTP": "http", "modle": "model",
		"max-request-row": "max-request-rows", "server": "", "x": "", "": "", "plugins": "plugin", "ptlaform": "platform",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{"n64: 1\nlabels: [a, b]\n", "a: &x 1\nb: *x\n", "- a\n", "<<: {a: 1}\n", "n64: !!str 5\n", "? [a]\n: 1\n", "a: |\n  x\n", "\xff\xfe"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := sample{}
		s := settingsFile{path: "FILE", flags: pflag.NewFlagSet("t", pflag.ContinueOnError)}
		Bind(s.flags, &c)
		for _, found := range s.parse([]byte(text)) {
			if _, err := nodeText(found.value, found.field); err == nil && found.line < 1 {
				t.Errorf("got %+v, want a line", found)
			}
		}
		for _, err := range s.errs {
			if !strings.HasPrefix(err.Error(), "FILE:") {
				t.Errorf("got %q, want file and line first", err)
			}
		}
	})
}
