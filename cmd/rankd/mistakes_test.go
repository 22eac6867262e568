package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

// mistake is something that people do wrong, and what the program says then.
type mistake struct {
	name    string
	line    string                          // the command line after "rankd"; PORT is a free port
	prepare func(t *testing.T, s *scene)    // makes what is wrong; the working directory has a bundle "demo"
	env     string                          // one more variable
	needs   func(t *testing.T, s *scene)    // skips where the mistake can't be made
	wrap    func(command []string) []string // runs the command in another way
	until   string                          // it goes on: stop it when it has said this
	code    int                             // exit code
}

// scene is the place where a mistake is made: a directory of its own, with ports of its own.
type scene struct {
	dir    string
	port   string // free
	env    []string
	binary string
	plugin string // path of the one for the CPU, where the mistake needs it
}

const bad = 78 // EX_CONFIG

var mistakes = []mistake{
	// Words.
	{name: "command-unknown", line: "sevre --model demo", code: bad},
	{name: "command-missing-argument", line: "model check", code: bad},
	{name: "flag-unknown", line: "serve --modle demo", code: bad},
	{name: "flag-no-number", line: "serve --model demo --executor sim --frontends four", code: bad},
	{name: "flag-no-unit", line: "serve --model demo --executor sim --drain-timeout 30", code: bad},
	{name: "flag-no-bytes", line: "serve --model demo --executor sim --max-request-bytes 16MB", code: bad},
	{name: "flag-no-choice", line: "serve --model demo --executor sim --batching on", code: bad},
	{name: "flags-several", line: "serve --model demo --executor sim --frontends four --drain-timeout 30 --chunk-rows 5000", code: bad},
	{name: "flag-switch-value", line: "serve --model demo --keep-tables false", code: bad},
	{name: "environment-no-number", line: "serve --model demo --executor sim", env: "RANKD_FRONTENDS=four", code: bad},
	{name: "environment-unknown", line: "inspect ready --run-dir .", env: "RANKD_LISTN=127.0.0.1:1", code: 1},

	// Values.
	{name: "frontends-0", line: "serve --model demo --executor sim --frontends 0", code: bad},
	{name: "listen-no-port", line: "serve --model demo --executor sim --listen 8500", code: bad},
	{name: "http-is-listen", line: "serve --model demo --executor sim --listen 127.0.0.1:PORT --http 127.0.0.1:PORT", code: bad},
	{name: "buckets-descending", line: "serve --model demo --executor sim --buckets 4,2", code: bad},
	{name: "buckets-too-large", line: "serve --model demo --executor sim --buckets 1,10000000", code: bad},
	{name: "max-batch-too-large", line: "model create-demo other --max-batch 100000", code: bad},
	{name: "pending-below-request", line: "serve --model demo --executor sim --max-request-rows 500000", code: bad},
	{name: "several", line: "serve --executor sim --frontends 65 --instance a.b --chunk-rows 5000 --max-request-bytes 512MiB", code: bad},
	{
		name: "batching-contradicts", line: "config check rankd.yaml", code: 0,
		prepare: file("rankd.yaml", "model: demo\nexecutor: sim\nbatching: off\nmax-delay: 5ms\nplugin: /lib/plugin.so\n"),
	},

	// Files.
	{name: "config-missing", line: "serve --config nowhere.yaml", code: bad},
	{
		name: "config-mistakes", line: "serve --config rankd.yaml --inline-chunks 0", code: bad,
		prepare: file("rankd.yaml", "# of the ranking team\nmodel: demo\nfrontend: 4\nexecutor: simulated\nserver:\n  listen: 127.0.0.1:8500\ndrain-timeout: 30\nchunk-rows: \"16\"\nbuckets: 1,4\nrestart-backoff: 1m\nhttp:\nmodel: other\n"),
	},
	{name: "config-tab", line: "config check rankd.yaml", prepare: file("rankd.yaml", "model: demo\nbuckets:\n\t- 1\n"), code: bad},
	{name: "config-is-model", line: "serve --config demo", code: bad},

	// Models.
	{name: "model-none", line: "serve --executor sim", code: bad},
	{name: "model-missing", line: "serve --model nowhere --executor sim", code: bad},
	{name: "model-no-bundle", line: "serve --model empty --executor sim", prepare: func(t *testing.T, s *scene) { s.mkdir(t, "empty") }, code: bad},
	{name: "model-a-file", line: "serve --model demo/manifest.json --executor sim", code: bad},
	{name: "model-newer-format", line: "serve --model demo --executor sim", prepare: edit("manifest.json", `"format_version": 1`, `"format_version": 2`), code: bad},
	{name: "model-truncated", line: serveSim, prepare: truncate("tables"), code: bad},
	{name: "model-other-bytes", line: serveSim, prepare: flip("tables"), code: bad},
	{name: "model-other-weights", line: serveSim, prepare: flip("weights"), code: bad},
	{name: "model-file-missing", line: serveSim, prepare: remove("tables"), code: bad},
	{name: "model-exists", line: "model create-demo demo", code: 1},
	{name: "model-version-not-served", line: "predict --model demo --model-version 7 --target 127.0.0.1:PORT --retries 0", needs: server, code: 1},

	// Plugins.
	{name: "plugin-none", line: "serve --model demo", code: bad},
	{name: "plugin-missing", line: "serve --model demo --plugin nowhere.so", code: bad},
	{name: "plugin-no-library", line: servePJRT + " --plugin plugin.so", prepare: file("plugin.so", "no library\n"), code: bad},
	{name: "plugin-other-platform", line: servePJRT + " --platform cuda --plugin PLUGIN", needs: plugin, code: bad},
	{name: "owner-cpus-unknown", line: servePJRT + " --owner-cpus 1000 --plugin PLUGIN", needs: plugin, code: bad},

	{name: "placement-unknown-cpu", line: "serve --model demo --executor sim --placement cpus=1000", code: bad},
	{name: "placement-no-choice", line: "serve --model demo --executor sim --placement 0-3 --tables-placement local", code: bad},
	{name: "placement-few-cpus", line: "serve --model demo --executor sim --placement cpus=0 --frontends 2", code: bad},
	{name: "placement-unknown-node", line: "serve --model demo --executor sim --placement node=700 --tables-placement node=700", code: bad},

	// The machine.
	{name: "port-taken", line: serveSim, needs: listener, code: 1},
	{name: "second-server", line: serveSim, needs: server, code: 1},
	{name: "shm-dir-missing", line: serveSim + " --shm-dir nowhere", code: bad},
	{name: "shm-dir-no-memory", line: serveSim + " --shm-dir /proc", code: bad},
	{name: "shm-too-small", line: serveSim + " --shm-dir shm", needs: mounts, prepare: func(t *testing.T, s *scene) { s.mkdir(t, "shm") }, wrap: mounted("tmpfs", "size=1m", "shm"), code: 1},
	{name: "no-huge-pages", line: serveSim + " --shm-dir shm", needs: emptyPool, prepare: func(t *testing.T, s *scene) { s.mkdir(t, "shm") }, wrap: mounted("hugetlbfs", "pagesize=2M", "shm"), code: 1},
	{name: "run-dir-a-file", line: strings.Replace(serveSim, "--run-dir run", "--run-dir run/file", 1), prepare: file("run/file", ""), code: 1},
	{
		name: "cache-of-others", line: servePJRT + " --executable-cache cache --plugin PLUGIN --buckets 1", needs: plugin, until: "server is ready",
		prepare: func(t *testing.T, s *scene) {
			s.mkdir(t, "cache")
			if err := os.Chmod(filepath.Join(s.dir, "cache"), 0o777); err != nil {
				t.Fatal(err)
			}
		},
	},

	// Clients.
	{name: "predict-no-server", line: "predict --model demo --target 127.0.0.1:PORT --retries 0 --timeout 5s", code: 1},
	{name: "predict-no-model", line: "predict --target 127.0.0.1:PORT", code: 1},
	{name: "predict-no-file", line: "predict --model demo nowhere.npz", code: 1},
	{name: "predict-unknown-format", line: "predict --model demo rows.csv", prepare: file("rows.csv", "1,2,3\n"), code: 1},
	{name: "predict-wrong-rows", line: "predict --model demo --target 127.0.0.1:PORT rows.jsonl", prepare: file("rows.jsonl", "{\"dense\": [1, 2]}\n"), needs: server, code: 1},
	{name: "predict-wrong-npz", line: "predict --model demo --target 127.0.0.1:PORT rows.npz", prepare: file("rows.npz", "no archive\n"), needs: server, code: 1},
	{name: "inspect-no-server", line: "inspect ready --listen 127.0.0.1:PORT --run-dir .", code: 1},
}

const (
	serveSim  = "serve --model demo --executor sim --listen 127.0.0.1:PORT --http 127.0.0.1:0 --run-dir run --log-format text"
	servePJRT = "serve --model demo --listen 127.0.0.1:PORT --http 127.0.0.1:0 --run-dir run --log-format text"
)

func TestMistakesAreAnsweredAsReviewed(t *testing.T) {
	binary := testutil.Binary(t)
	demo := filepath.Join(t.TempDir(), "demo")
	out, err := exec.Command(binary, "model", "create-demo", demo, "--small", "--max-vocab=20", "--max-batch=8", "--golden=4").CombinedOutput()
	if err != nil {
		t.Fatalf("make a bundle: %v\n%s", err, out)
	}
	g := newGoldens(t, "errors")
	for _, m := range mistakes {
		name := g.keep(m.name)
		t.Run(m.name, func(t *testing.T) {
			s := newScene(t, binary, demo)
			if m.prepare != nil {
				m.prepare(t, s)
			}
			if m.needs != nil {
				m.needs(t, s)
			}
			g.compare(t, strings.TrimSuffix(name, ".golden"), s.run(t, &m))
		})
	}
	g.finish()
}

func newScene(t *testing.T, binary, demo string) *scene {
	t.Helper()
	_, port, err := net.SplitHostPort(testutil.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{dir: t.TempDir(), port: port, binary: binary, plugin: "no plugin"}
	if err := os.CopyFS(filepath.Join(s.dir, "demo"), os.DirFS(demo)); err != nil {
		t.Fatal(err)
	}
	s.mkdir(t, "run")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RANKD_") && !strings.HasPrefix(v, "CACHE_DIRECTORY=") {
			s.env = append(s.env, v)
		}
	}
	return s
}

func (s *scene) mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// command is rankd with the words of a line.
func (s *scene) command(ctx context.Context, line string, wrap func([]string) []string) *exec.Cmd {
	words := strings.Fields(strings.NewReplacer("PORT", s.port, "PLUGIN", s.plugin).Replace(line))
	argv := append([]string{s.binary}, words...)
	if wrap != nil {
		argv = wrap(argv)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	return cmd
}

// run makes the mistake and gives what was typed, the exit code and what was said.
func (s *scene) run(t *testing.T, m *mistake) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := s.command(ctx, m.line, m.wrap)
	if m.env != "" {
		cmd.Env = append(cmd.Env, m.env)
	}
	out, err := runUntil(t, cmd, m.until)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("run: %v, %v\n%s", err, ctx.Err(), out)
	}
	if code := cmd.ProcessState.ExitCode(); code != m.code {
		t.Errorf("got exit code %d, want %d", code, m.code)
	}
	var b strings.Builder
	env := ""
	if m.env != "" {
		env = m.env + " "
	}
	fmt.Fprintf(&b, "$ %srankd %s\n", env, m.line)
	for line := range strings.Lines(string(out)) {
		if line = s.normal(line); line != "" {
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "exit code %d\n", cmd.ProcessState.ExitCode())
	return b.String()
}

// runUntil runs a command and returns what it said. If until is not empty the command is stopped when it has said that.
func runUntil(t *testing.T, cmd *exec.Cmd, until string) ([]byte, error) {
	t.Helper()
	if until == "" {
		return cmd.CombinedOutput()
	}
	path := filepath.Join(t.TempDir(), "said")
	said, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	text := func() []byte {
		all, _ := os.ReadFile(path)
		return all
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			return text(), err
		case <-poll.C:
			if strings.Contains(string(text()), until) {
				if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
					return text(), err
				}
				err := <-ended
				return text(), err
			}
		}
	}
}

var (
	logLine = regexp.MustCompile(`^time=\S+ level=(\S+) `)

	// accidents are what depends on the machine and the moment.
	accidents = []struct {
		pattern *regexp.Regexp
		stand   string
	}{
		{regexp.MustCompile(`((?:process|pid)[ =])\d+`), "${1}PID"},
		{regexp.MustCompile(`(process PID) \([^)]*\)`), "$1 (NAME)"},
		{regexp.MustCompile(`127-0-0-1-\d+`), "127-0-0-1-PORT"},
		{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:DIGEST"},
		{regexp.MustCompile(`tables\.[0-9a-f]{16}`), "tables.DIGEST"},
		{regexp.MustCompile(`(want (?:some|one) of) [0-9,-]+(: there are no others)`), "$1 LIST$2"},
	}
)

// normal takes out of a line what differs from run to run; logs are kept from warnings on.
func (s *scene) normal(line string) string {
	if m := logLine.FindStringSubmatch(line); m != nil {
		if m[1] == "INFO" || strings.Contains(line, "shared pages") || strings.Contains(line, "steered") { // these are of the machine
			return ""
		}
		line = strings.TrimPrefix(line, strings.Fields(line)[0]+" ")
	}
	line = strings.NewReplacer(s.dir, "DIR", ":"+s.port, ":PORT", s.plugin, "PLUGIN").Replace(line)
	for _, a := range accidents {
		line = a.pattern.ReplaceAllString(line, a.stand)
	}
	return line
}
