package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/internal/testutil"
)

// TestPackageAndService takes one machine through the life of a service. The parts come in this order, each with the service stopped.
func TestPackageAndService(t *testing.T) {
	s := installed(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *service)
	}{
		{"package has what it says", packageContents},
		{"start is ready and says so", startIsReady},
		{"wrong setting is told and not tried again", wrongSetting},
		{"slow load is given time, a stuck one is not", slowLoad},
		{"hung device owner trips the watchdog, slow batches do not", watchdog},
		{"stop loses no answer", stopUnderLoad},
		{"stop during the load ends it", stopWhileLoading},
		{"frontend that is killed is replaced in the same service", killedFrontend},
		{"kill -9 of the main process is followed by a start with the same tables", killedMain},
		{"two instances serve, a third on a taken port is refused", instances},
		{"pinned to a processor it stays there", pinned},
		{"huge pages are reserved or refused with figures", hugePages},
		{"upgrade restarts with the tables in memory", upgrade},
		{"reboot starts it again", reboot},
		{"removed package leaves nothing that runs", removed},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, s) }) {
			t.Logf("%s", s.m.journal())
		}
	}
}

func packageContents(t *testing.T, s *service) {
	for _, path := range []string{
		"/usr/bin/rankd", "/usr/lib/systemd/system/rankd.service", "/usr/lib/systemd/system/rankd@.service", "/usr/lib/systemd/system/var-lib-rankd-tables.mount",
		"/usr/lib/systemd/system/rankd-hugepages.service", "/usr/share/man/man1/rankd-serve.1.gz", "/usr/share/bash-completion/completions/rankd",
		"/usr/share/rankd/plugins/install_plugin.sh", "/usr/share/doc/rankd/copyright", "/etc/rankd/rankd.yaml",
	} {
		if _, err := os.Stat(filepath.Join(s.m.root, path)); err != nil {
			t.Error(err)
		}
	}
	if out := s.m.run("getent", "passwd", "rankd"); !strings.Contains(out, "nologin") {
		t.Errorf("got user %q, want one that nobody logs in as", out)
	}
	if got := s.m.show("rankd.service", "UnitFileState"); got != "disabled" {
		t.Errorf("got %q, want a service that waits for its configuration", got)
	}
	if out, err := s.m.try("man", "--path", "rankd-serve"); err != nil && !strings.Contains(out, "rankd-serve") {
		t.Logf("man is not there: %v", err)
	}
	if out := s.m.run("bash", "-c", "source /usr/share/bash-completion/bash_completion 2>/dev/null; source /usr/share/bash-completion/completions/rankd; complete -p rankd"); !strings.Contains(out, "rankd") {
		t.Errorf("got completion %q", out)
	}
	if out, err := s.m.try("systemd-analyze", "security", "--threshold=40", "rankd.service"); err != nil {
		t.Errorf("exposure: %v\n%s", err, tail(out))
	}
}

func startIsReady(t *testing.T, s *service) {
	s.start(t)
	if st, err := s.status(); err != nil || !st.Ready {
		t.Fatalf("systemctl start has returned: got %+v, %v, want a server that is ready", st, err)
	}
	if got := s.m.show(s.unit, "StatusText"); !strings.Contains(got, "serving test version 1 on "+s.listen+": 2 of 2 frontends are ready") {
		t.Errorf("got status %q", got)
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
	st := s.awaitReady(t)
	if st.Tables == nil || !strings.HasPrefix(st.Tables.Path, "/var/lib/rankd/tables/") {
		t.Errorf("got tables %+v, want them in their mount", st.Tables)
	}
	t.Logf("tables: %+v", *st.Tables)
	if out := s.m.run("rankd", "inspect", "ready", "--listen", s.listen); !strings.Contains(out, "takes requests") {
		t.Errorf("inspect as root: got %q", out)
	}
	uid := strings.TrimSpace(s.m.run("ps", "-o", "user=", "-p", s.m.show(s.unit, "MainPID")))
	if uid != "rankd" {
		t.Errorf("got user %q, want rankd", uid)
	}
	if out := s.m.run("journalctl", "--no-pager", "-o", "cat", "-u", s.unit); !strings.Contains(out, `"msg":"server is ready"`) {
		t.Errorf("got no record of the start in the journal:\n%s", tail(out))
	}
}

func wrongSetting(t *testing.T, s *service) {
	t.Cleanup(func() { s.configure("") })
	s.configure("frontend: 3\npipeline-depth: many\n")
	t.Cleanup(func() { _, _ = s.m.try("systemctl", "reset-failed", s.unit) })
	if out, err := s.m.try("systemctl", "start", s.unit); err == nil {
		t.Fatalf("got no error from systemctl start: %s", out)
	}
	s.m.wants(s.unit, "ActiveState", "failed")
	if got := s.m.show(s.unit, "ExecMainStatus"); got != "78" {
		t.Errorf("got exit code %s, want 78", got)
	}
	if got := s.m.show(s.unit, "NRestarts"); got != "0" {
		t.Errorf("got %s restarts, want none", got)
	}
	out := s.m.run("journalctl", "--no-pager", "-o", "cat", "-u", s.unit, "-n", "20")
	for _, want := range []string{"/etc/rankd/rankd.yaml", "frontend", "frontends", "pipeline-depth", "many"} {
		if !strings.Contains(out, want) {
			t.Errorf("got no %q in the journal:\n%s", want, tail(out))
		}
	}
	if out, err := s.m.try("rankd", "config", "check"); err == nil || !strings.Contains(out, "rankd.yaml:6") {
		t.Errorf("config check: got %v\n%s", err, out)
	}
}

// pinned: with systemd's own means.
func pinned(t *testing.T, s *service) {
	s.m.dropIn(t, s.unit, "[Service]\nCPUAffinity=0\n")
	s.start(t)
	for _, p := range s.awaitReady(t).Processes {
		if out := s.m.run("taskset", "-cp", itoa(p.PID)); !strings.HasSuffix(strings.TrimSpace(out), ": 0") {
			t.Errorf("%s %d: got %q, want processor 0", p.Role, p.Index, out)
		}
	}
}

func hugePages(t *testing.T, s *service) {
	const unit = "rankd-hugepages.service"
	s.m.dropIn(t, unit, "[Service]\nEnvironment=PAGES=8\n")
	t.Cleanup(func() { _, _ = s.m.try("systemctl", "stop", unit); _, _ = s.m.try("systemctl", "reset-failed", unit) })
	_, err := s.m.try("systemctl", "start", unit)
	if s.m.show(unit, "ConditionResult") == "no" {
		t.Skip("/proc/sys cannot be written in this container: the unit was passed over, as its condition says")
	}
	out := s.m.run("journalctl", "--no-pager", "-o", "cat", "-u", unit, "-n", "20")
	if !strings.Contains(out, "huge pages: got") || (err == nil) != (s.m.show(unit, "ActiveState") == "active") {
		t.Errorf("got %v and\n%s", err, out)
	}
}

func upgrade(t *testing.T, s *service) {
	s.start(t)
	before := s.awaitReady(t)
	inode := s.m.run("stat", "-c", "%i", before.Tables.Path)
	// The same package with a higher version: everything that dpkg does for an upgrade.
	s.m.run("bash", "-ec", "mkdir /up && cd /up && dpkg-deb -R /rankd.deb tree && sed -i 's/^Version:.*/Version: 9.9/' tree/DEBIAN/control && echo '# edited' >> /etc/rankd/rankd.yaml && dpkg-deb -Zgzip -z1 -b --root-owner-group tree new.deb")
	out := s.m.run("dpkg", "--install", "--force-confold", "/up/new.deb")
	t.Log(tail(out))
	after := s.awaitReady(t)
	if after.PID == before.PID || !after.Tables.Attached {
		t.Errorf("got process %d after %d, tables %+v, want a new process with the tables that were there", after.PID, before.PID, after.Tables)
	}
	if got := s.m.run("stat", "-c", "%i", after.Tables.Path); got != inode {
		t.Errorf("got tables in file %s, want %s", got, inode)
	}
	if text := s.m.run("cat", "/etc/rankd/rankd.yaml"); !strings.Contains(text, "# edited") {
		t.Errorf("got the configuration\n%s\nwant what was edited", text)
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
}

func reboot(t *testing.T, s *service) {
	s.m.run("systemctl", "enable", s.unit)
	t.Cleanup(func() { _, _ = s.m.try("systemctl", "disable", "--now", s.unit) })
	s.m.run("systemctl", "start", s.unit)
	s.m.reboot()
	s.m.wants(s.unit, "ActiveState", "active")
	if st := s.awaitReady(t); st.Tables.Attached {
		t.Errorf("got tables %+v, want them loaded: the memory is gone", st.Tables)
	}
	if err := s.score(t, s.dial(t)); err != nil {
		t.Error(err)
	}
}

func removed(t *testing.T, s *service) {
	s.m.run("systemctl", "start", s.unit)
	s.m.run("dpkg", "--purge", "rankd")
	if out, err := s.m.try("pgrep", "-u", "rankd"); err == nil {
		t.Errorf("got processes %s", out)
	}
	for _, path := range []string{"/usr/bin/rankd", "/usr/lib/systemd/system/rankd.service", "/etc/rankd/rankd.yaml", "/var/cache/rankd"} {
		if _, err := os.Stat(filepath.Join(s.m.root, path)); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want it gone", path, err)
		}
	}
	if out := s.m.run("findmnt", "-n", "-o", "TARGET"); strings.Contains(out, "/var/lib/rankd/tables") {
		t.Errorf("the tables' memory is still mounted:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(s.m.root, modelDir)); err != nil {
		t.Errorf("the model: %v, want it kept", err)
	}
}

// within waits for what a service manager does in its own time.
func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	testutil.Eventually(t, limit, what, done)
}
