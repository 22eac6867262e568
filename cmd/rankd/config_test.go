package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
	"rankd/internal/doctor"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
)

func smallModel(t *testing.T) *model.Bundle {
	t.Helper()
	b, err := demo.Create(t.Context(), demo.Options{Dir: filepath.Join(t.TempDir(), "demo"), Seed: 1, MaxVocab: 10, MaxBatch: 4, Golden: 2, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rankd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// uncommented takes every setting of the example in.
func uncommented(example string) string {
	var b strings.Builder
	for line := range strings.Lines(example) {
		if len(line) > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z' {
			line = line[1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestExampleFileHasEveryFlagWithItsDefault(t *testing.T) {
	example, err := execute("config", "example")
	if err != nil {
		t.Fatal(err)
	}
	text := uncommented(example)
	serve := newServe()
	serve.Flags().VisitAll(func(f *pflag.Flag) {
		if n := strings.Count("\n"+text, "\n"+f.Name+": "); n != 1 && f.Name != config.FileFlag {
			t.Errorf("setting %s: stands %d times in the example, want once", f.Name, n)
		}
	})
	c := newServeConfig()
	cmd := &cobra.Command{}
	config.BindSections(cmd.Flags(), c.sections())
	c.general.Config = write(t, text)
	origins, err := config.Fill(cmd.Flags())
	if err != nil {
		t.Fatal(err)
	}
	want := newServeConfig()
	want.general.Config = c.general.Config
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v from the example, want the defaults %+v", c, want)
	}
	if n := origins.Count(config.FromFile); n < 50 {
		t.Errorf("got %d settings from the example, want all", n)
	}
	for line := range strings.Lines(example) {
		if n := len([]rune(line)); n > 110 {
			t.Errorf("got a line of %d letters: %s", n, line)
		}
	}
}

// exampleFile is what packages install.
const exampleFile = "deploy/rankd.yaml"

func TestExampleFileInTheRepositoryIsTheOneThatIsPrinted(t *testing.T) {
	example, err := execute("config", "example")
	if err != nil {
		t.Fatal(err)
	}
	if rewriting() {
		if err := os.WriteFile(filepath.Join(root, exampleFile), []byte(example), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page(t, exampleFile) != example {
		t.Errorf("%s differs from what rankd config example prints: make golden", exampleFile)
	}
}

func TestEffectiveConfigurationIsAFileThatGivesTheSame(t *testing.T) {
	t.Setenv("RANKD_CHUNK_ROWS", "32")
	path := write(t, "frontends: 4\nbuckets: [1, 8]\nmax-request-bytes: 32MiB\nhttp: \"\"\n")
	first, err := execute("config", "print", "--effective", "--config", path, "--batching", "linger")
	if err != nil {
		t.Fatal(err)
	}
	for setting, origin := range map[string]string{
		"frontends: 4": path + ":1", "buckets: [1, 8]": path + ":2", "max-request-bytes: 32MiB": path + ":3", `http: ""`: path + ":4",
		"chunk-rows: 32": "RANKD_CHUNK_ROWS", "batching: linger": "flag", "pipeline-depth: 2": "default",
	} {
		found := false
		for line := range strings.Lines(first) {
			found = found || strings.HasPrefix(line, setting+" ") && strings.HasSuffix(line, "# "+origin+"\n")
		}
		if !found {
			t.Errorf("got no %q from %s in\n%s", setting, origin, first)
		}
	}
	if err := os.Unsetenv("RANKD_CHUNK_ROWS"); err != nil {
		t.Fatal(err)
	}
	again, err := execute("config", "print", "--effective", "--config", write(t, first))
	if err != nil {
		t.Fatal(err)
	}
	values := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			if value, _, _ := strings.Cut(line, " # "); !strings.HasPrefix(line, "#") {
				list = append(list, strings.TrimSpace(value))
			}
		}
		return list
	}
	if got, want := values(again), values(first); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	few, err := execute("config", "print", "--config", path)
	if err != nil || strings.Contains(few, "# default") || strings.Count(few, "rankd.yaml:") != 4 || !strings.HasPrefix(few, "# 4 settings from "+path+", ") {
		t.Errorf("got %v and\n%s\nwant only what is set", err, few)
	}
}

func TestPrintSaysWhichPlacesWereOverruled(t *testing.T) {
	t.Setenv("RANKD_FRONTENDS", "3")
	path := write(t, "# file\nfrontends: 4\n")
	for _, c := range []struct{ flags, value, origin string }{
		{"", "frontends: 3", "RANKD_FRONTENDS, over " + path + ":2"},
		{"--frontends=2", "frontends: 2", "flag, over RANKD_FRONTENDS and " + path + ":2"},
	} {
		got, err := execute(append([]string{"config", "print", "--config", path}, strings.Fields(c.flags)...)...)
		if err != nil || !strings.HasPrefix(got, "# ") || !strings.Contains(got, "\n"+c.value+" ") || !strings.HasSuffix(got, " # "+c.origin+"\n") {
			t.Errorf("%s: got %v and\n%s\nwant %s from %s", c.flags, err, got, c.value, c.origin)
		}
	}
}

func TestConfigCheckTellsEveryMistakeAtOnce(t *testing.T) {
	path := write(t, "model: /nowhere\nexecutor: sim\nfrontends: 65\nfrontnds: 2\nmax-request-rows: 500000\nchunk-rows: 1.5\nbuckets: [4, 2]\nlisten: 127.0.0.1:1\nhttp: 127.0.0.1:1\n")
	for _, args := range [][]string{{"config", "check", path}, {"config", "check", "--config", path}} {
		_, err := execute(args...)
		var coded *exitError
		if !errors.As(err, &coded) || coded.code != config.ExitBadConfig {
			t.Fatalf("got %v, want exit code 78", err)
		}
		for _, want := range []string{
			path + ":1: model: open bundle", path + ":3: frontends: got 65, want 1..64", path + ":4: frontnds: no setting has this name, want frontends?",
			"check --frontend-pending-rows: got 262144, want at least --max-request-rows, which is 500000 (--max-request-rows stands in " + path + ":5)",
			path + ":6: chunk-rows: got 1.5, want a whole number (0..4096)", path + ":7: buckets: got [4 2]", path + ":9: http: got 127.0.0.1:1, which --listen",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
	}
}

func TestConfigCheckAcceptsWhatIsRight(t *testing.T) {
	b := smallModel(t)
	path := write(t, "executor: sim\nmax-delay: 2ms\n")
	out, err := execute("config", "check", path, "--model", b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rankd.yaml is right: 2 settings from", "1 setting from flags", "model dlrm", "warning: --max-delay", "next: rankd doctor --config " + path} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
}

func TestFileOfConfigCheckIsChosen(t *testing.T) {
	for _, c := range []struct{ argument, flag, variable, want string }{
		{"", "", "", config.DefaultFile},
		{"", "", "v", "v"},
		{"", "f", "v", "f"},
		{"a", "", "v", "a"},
		{"a", "f", "", ""},
	} {
		cmd := newConfigCheck()
		if c.flag != "" {
			if err := cmd.Flags().Set(config.FileFlag, c.flag); err != nil {
				t.Fatal(err)
			}
		}
		var args []string
		if c.argument != "" {
			args = append(args, c.argument)
		}
		err := chooseFile(cmd.Flags(), args, func(string) string { return c.variable })
		if got := cmd.Flags().Lookup(config.FileFlag).Value.String(); (err != nil) != (c.want == "") || err == nil && got != c.want {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// doctored runs doctor in this process, without the plugin's own.
func doctored(t *testing.T, args ...string) (report struct {
	Fail     int
	Findings []doctor.Finding
}, err error,
) {
	t.Helper()
	out, err := execute(append([]string{"doctor", "--json", "--run-dir", t.TempDir(), "--listen", testutil.Address(t), "--http", testutil.Address(t)}, args...)...)
	if e := json.Unmarshal([]byte(out), &report); e != nil {
		t.Fatalf("%v, %v: %s", e, err, out)
	}
	return report, err
}

func TestDoctorExaminesConfigurationModelAndMachine(t *testing.T) {
	b := smallModel(t)
	r, err := doctored(t, "--model", b.Dir, "--executor", "sim", "--sim-call", "1ms", "--max-delay", "5ms")
	groups := map[string]int{}
	for _, f := range r.Findings {
		groups[f.Group]++
		if f.State == doctor.Fail {
			t.Errorf("got %+v on a machine that runs this test", f)
		}
	}
	if err != nil || r.Fail != 0 {
		t.Errorf("got %v, want a server that can start", err)
	}
	for _, want := range []string{"configuration", "model", "memory", "pages", "limits", "processors", "kernel", "plugin", "ports", "directories"} {
		if groups[want] == 0 {
			t.Errorf("got no findings about %s, only %v", want, groups)
		}
	}
	if f := r.Findings[1]; f.State != doctor.Warn || !strings.Contains(f.Found, "--max-delay (flag) has no effect") {
		t.Errorf("got %+v, want the setting without effect", f)
	}
}

func TestDoctorFailsWhereAServerWouldNotStart(t *testing.T) {
	b := smallModel(t)
	damaged := smallModel(t)
	if err := os.Truncate(damaged.Path(damaged.Manifest.Tables[0].File), 100); err != nil {
		t.Fatal(err)
	}
	for check, args := range map[string][]string{
		"configuration/mistake": {"--model", b.Dir, "--executor", "sim", "--frontends", "0"},
		"model/bundle":          {"--model", "/nowhere", "--executor", "sim"},
		"model/files":           {"--model", damaged.Dir, "--executor", "sim"},
		"model/batch sizes":     {"--model", b.Dir, "--executor", "sim", "--buckets", "1,100000000"},
		"plugin/file":           {"--model", b.Dir, "--plugin", "/nowhere.so"},
		"directories/run-dir":   {"--model", b.Dir, "--executor", "sim", "--run-dir", write(t, "")},
		"ports/listen":          {"--model", b.Dir, "--executor", "sim", "--listen", held(t)},
	} {
		r, err := doctored(t, args...)
		var failed []string
		for _, f := range r.Findings {
			if f.State == doctor.Fail {
				failed = append(failed, f.Group+"/"+f.Check)
			}
		}
		if !errors.Is(err, errUnfit) || !reflect.DeepEqual(failed, []string{check}) {
			t.Errorf("doctor %v: got %v and failures %q, want %q", args, err, failed, check)
		}
	}
}

// A file that can't be read says nothing of the server that is meant, so nothing else is looked at.
func TestDoctorStopsAtAFileThatCannotBeRead(t *testing.T) {
	r, err := doctored(t, "--config", write(t, "model: demo\n\tfrontends: 4\n"))
	if !errors.Is(err, errUnfit) || r.Fail != 1 || !strings.Contains(r.Findings[0].Found, ":2: this is no YAML") {
		t.Errorf("got %v and %+v, want the file's fault", err, r.Findings)
	}
	for _, f := range r.Findings {
		if f.Group != "configuration" {
			t.Errorf("got %+v about a server that nobody has asked about", f)
		}
	}
}

// held is an address at which this process listens.
func held(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestServerStartsFromItsFileAlone(t *testing.T) {
	s := newDemoScene(t)
	file("rankd.yaml", "model: demo\nexecutor: sim\nlisten: 127.0.0.1:"+s.port+"\nhttp: \"\"\nrun-dir: run\nbuckets: [1, 4]\nlog-format: text\nmax-delay: 2ms\n")(t, s)
	for _, start := range []struct{ line, env string }{
		{"serve --config rankd.yaml", ""}, {"serve", "RANKD_CONFIG=rankd.yaml"},
	} {
		cmd := s.command(t.Context(), start.line, nil)
		if start.env != "" {
			cmd.Env = append(cmd.Env, start.env)
		}
		out, err := runUntil(t, cmd, "server is ready")
		for _, want := range []string{
			"msg=configuration file=rankd.yaml from_file=8", "listen=127.0.0.1:" + s.port, "buckets=\"[1 4]\"", "--max-delay (rankd.yaml:8) has no effect", "msg=stopped",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s %s: got no %q in\n%s", start.env, start.line, want, out)
			}
		}
		if err != nil {
			t.Errorf("%s %s: %v", start.env, start.line, err)
		}
	}
}
