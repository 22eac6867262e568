package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func filesOf(t *testing.T, l Layout) map[string]string {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	list, err := l.Files()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range list {
		texts[f.Path] = f.Text
	}
	return texts
}

func TestI1UnitsNameWhatTheirLayoutHas(t *testing.T) {
	l := Installed("/opt/rankd/bin/rankd")
	l.User, l.Config = "ranker", "/srv/conf/main.yaml"
	texts := filesOf(t, l)
	for path, wants := range map[string][]string{
		"/etc/systemd/system/rankd.service": {
			"ExecStart=/opt/rankd/bin/rankd serve\n", "User=ranker\n", "RANKD_CONFIG=/srv/conf/main.yaml ", "Wants=" + TablesUnit, "RestartPreventExitStatus=78",
			"systemctl edit rankd.service\n",
		},
		"/etc/systemd/system/rankd@.service":          {"RANKD_CONFIG=/srv/conf/%i.yaml ", "server (%i)", "EnvironmentFile=-/etc/default/rankd-%i\n"},
		"/etc/systemd/system/" + TablesUnit:           {"Where=" + TablesDir + "\n", "huge=always,size=90%,"},
		"/etc/systemd/system/rankd-hugepages.service": {"/proc/sys/vm/nr_hugepages"},
		"/etc/sysusers.d/rankd.conf":                  {"u ranker - "},
	} {
		for _, w := range wants {
			if !strings.Contains(texts[path], w) {
				t.Errorf("%s: got no %q in\n%s", path, w, texts[path])
			}
		}
	}
	if len(texts) != 5 {
		t.Errorf("got %d files, want 5", len(texts))
	}
}

func TestLayoutsThatCannotWorkAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Layout){
		"check --user":                  func(l *Layout) { l.User = "Bad User" },
		"check --binary: got \"rankd\"": func(l *Layout) { l.Binary = "rankd" },
		"copy it to /usr/local/bin":     func(l *Layout) { l.Binary = "/tmp/rankd" },
		"check --config-file":           func(l *Layout) { l.Config = "/etc/my rankd.yaml" },
	} {
		l := Installed("/usr/local/bin/rankd")
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// systemd itself says whether it understands the units: an unknown setting, a wrong value, or a mount of another name than its place.
func TestSystemdUnderstandsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing: apt-get install systemd")
	}
	root := t.TempDir()
	l := Packaged()
	list, err := l.Files()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(root, append(list, File{l.Binary, "#!/bin/true\n"}, File{"/usr/bin/install", "x"}, File{"/bin/sh", "x"}), false); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{l.Binary, "/usr/bin/install", "/bin/sh"} {
		if err := os.Chmod(filepath.Join(root, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range []string{"rankd.service", "rankd@a.service", "rankd-hugepages.service", TablesUnit} {
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", "--root="+root, unit).CombinedOutput()
		if err != nil || strings.Contains(string(out), "nknown") || strings.Contains(string(out), "ignoring") {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--root="+root, "--threshold=40", "rankd.service").CombinedOutput()
	if err != nil {
		t.Errorf("exposure is more than 4.0: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}

func TestI4EditedFilesAreKept(t *testing.T) {
	root := t.TempDir()
	list, err := Packaged().Files()
	if err != nil {
		t.Fatal(err)
	}
	whats := func(changes []Change) string {
		var words []string
		for _, c := range changes {
			words = append(words, c.What)
		}
		return strings.Join(words, ",")
	}
	check := func(what, want string, changes []Change, err error) {
		t.Helper()
		if got := whats(changes); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", what, got, err, want)
		}
	}
	written := "written,written,written,written,written"
	changes, err := Write(root, list, true)
	check("dry", written, changes, err)
	if _, err := os.Stat(filepath.Join(root, "usr")); !os.IsNotExist(err) {
		t.Errorf("dry: got %v, want nothing written", err)
	}
	changes, err = Write(root, list, false)
	check("first", written, changes, err)
	changes, err = Write(root, list, false)
	check("second", "as it was,as it was,as it was,as it was,as it was", changes, err)
	config := File{"/etc/rankd/rankd.yaml", "model: x\n"}
	for _, want := range []string{"written", "kept"} {
		if c, err := WriteNew(root, config, 0o640, false); err != nil || c.What != want {
			t.Errorf("configuration: got %+v, %v, want %s", c, err, want)
		}
		config.Text = "another"
	}
	if text, _ := os.ReadFile(filepath.Join(root, config.Path)); string(text) != "model: x\n" {
		t.Errorf("configuration: got %q, want it kept", text)
	}
	edited := filepath.Join(root, list[3].Path)
	if err := os.WriteFile(edited, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	changes, err = Remove(root, list, false)
	check("remove", "removed,removed,removed,kept,removed", changes, err)
	changes, err = Remove(root, list, false)
	check("once more", "kept", changes, err)
}
