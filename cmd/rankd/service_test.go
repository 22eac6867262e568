package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"rankd/internal/config"
)

func TestServiceFilesForAnImage(t *testing.T) {
	root := t.TempDir()
	out, err := execute("service", "install", "--root", root, "--binary", "/usr/bin/rankd", "--model", "/srv/models/demo")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(root, config.DefaultFile))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nmodel: /srv/models/demo\n") || !strings.Contains(string(text), "\n#listen: ") {
		t.Errorf("got the configuration\n%s", text)
	}
	unit, err := os.ReadFile(filepath.Join(root, "/etc/systemd/system/rankd.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/bin/rankd serve\n") {
		t.Errorf("got the unit, %v\n%s", err, unit)
	}
	// Variables of the unit are those of flags.
	for _, word := range strings.Fields(string(unit)) {
		name, _, found := strings.Cut(strings.TrimPrefix(word, "Environment="), "=")
		if found && strings.HasPrefix(name, "RANKD_") {
			if f := newServe().Flags().Lookup(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "RANKD_"), "_", "-"))); f == nil {
				t.Errorf("%s is no setting of serve", name)
			}
		}
	}
	out, err = execute("service", "install", "--root", root, "--binary", "/usr/bin/rankd", "--model", "other")
	if err != nil || !strings.Contains(out, config.DefaultFile+": kept") || strings.Contains(out, ": written") {
		t.Errorf("once more: got %v\n%s", err, out)
	}
}

func TestServiceIsInstalledByRootUnderSystemdOnly(t *testing.T) {
	out, err := execute("service", "install", "--dry-run", "--binary", "/usr/bin/rankd")
	if err != nil || !strings.Contains(out, "would run: systemctl daemon-reload") {
		t.Errorf("dry: got %v\n%s", err, out)
	}
	out, err = execute("service", "uninstall", "--dry-run", "--binary", "/usr/bin/rankd")
	if err != nil || !strings.Contains(out, "would run: systemctl disable --now rankd.service") {
		t.Errorf("dry: got %v\n%s", err, out)
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("systemd runs here: it would be installed")
	}
	_, err = execute("service", "install", "--binary", "/usr/bin/rankd")
	if err == nil || !strings.Contains(err.Error(), "systemd does not run here") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestManualHasAPageForEveryCommand(t *testing.T) {
	dir := t.TempDir()
	if out, err := execute("manual", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	visit(newRoot(), func(cmd *cobra.Command) {
		page := filepath.Join(dir, "man1", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			return
		}
		if !strings.Contains(string(text), ".TH") || !strings.Contains(string(text), "SYNOPSIS") {
			t.Errorf("%s: got no man page:\n%.300s", page, text)
		}
	})
	for _, name := range []string{"rankd.bash", "_rankd", "rankd.fish"} {
		if info, err := os.Stat(filepath.Join(dir, "completions", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
