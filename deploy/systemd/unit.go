package systemd

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// Layout is what units name, and where they go.
type Layout struct {
	Binary string // absolute path of rankd
	User   string // that the server runs as; a system user of this name is made
	Config string // configuration file of rankd.service; those of rankd@NAME.service lie beside it as NAME.yaml
	Units  string // directory of the units
	Users  string // directory of the user's description, for systemd-sysusers
}

// Installed is the layout of "rankd service install" for a binary.
func Installed(binary string) Layout {
	return Layout{Binary: binary, User: "rankd", Config: "/etc/rankd/rankd.yaml", Units: "/etc/systemd/system", Users: "/etc/sysusers.d"}
}

// Packaged is that of the package.
func Packaged() Layout {
	return Layout{Binary: "/usr/bin/rankd", User: "rankd", Config: "/etc/rankd/rankd.yaml", Units: "/usr/lib/systemd/system", Users: "/usr/lib/sysusers.d"}
}

// What the service has, whatever its layout. systemd derives the first two from StateDirectory=, and a mount's name from its place.
const (
	StateDir   = "/var/lib/rankd"
	TablesDir  = StateDir + "/tables"
	TablesUnit = "var-lib-rankd-tables.mount"
)

var userPattern = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)

// Validate returns every violation (I1).
func (l *Layout) Validate() error {
	var errs []error
	if !userPattern.MatchString(l.User) {
		errs = append(errs, fmt.Errorf("check --user: got %q, want a name of a-z, 0-9, - and _ that begins with a letter", l.User))
	}
	for flag, p := range map[string]string{"binary": l.Binary, "config-file": l.Config} {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, " \t\n%$\"'\\") {
			errs = append(errs, fmt.Errorf("check --%s: got %q, want an absolute path without spaces and the signs %%, $, quotes and backslashes", flag, p))
		}
	}
	// ProtectHome and PrivateTmp hide these from the service.
	if top, _, _ := strings.Cut(strings.TrimPrefix(l.Binary, "/"), "/"); top == "tmp" || top == "home" || top == "root" {
		errs = append(errs, fmt.Errorf("check --binary: got %q, want a place that a service may execute from: copy it to /usr/local/bin/rankd and run that", l.Binary))
	}
	return errors.Join(errs...)
}

// File is one file of a layout.
type File struct {
	Path string
	Text string
}

// data is what templates see.
type data struct {
	Layout
	Template bool // the unit is for several servers
}

func (d data) Unit() string {
	if d.Template {
		return "rankd@.service"
	}
	return "rankd.service"
}

// ConfigOf is the configuration file as the unit names it.
func (d data) ConfigOf() string {
	if d.Template {
		return path.Join(path.Dir(d.Config), "%i.yaml")
	}
	return d.Config
}

// StateDir, TablesDir and TablesUnit are for the templates.
func (d data) StateDir() string { return StateDir }

// TablesDir is described at StateDir.
func (d data) TablesDir() string { return TablesDir }

// TablesUnit is described at StateDir.
func (d data) TablesUnit() string { return TablesUnit }

// Files are those of a layout, the user's description first. Preconditions: the layout is valid.
func (l Layout) Files() ([]File, error) {
	var files []File
	for _, x := range []struct {
		template, path string
		several        bool
	}{
		{"sysusers.conf.tmpl", filepath.Join(l.Users, "rankd.conf"), false},
		{"tables.mount.tmpl", filepath.Join(l.Units, TablesUnit), false},
		{"hugepages.service.tmpl", filepath.Join(l.Units, "rankd-hugepages.service"), false},
		{"rankd.service.tmpl", filepath.Join(l.Units, "rankd.service"), false},
		{"rankd.service.tmpl", filepath.Join(l.Units, "rankd@.service"), true},
	} {
		t, err := template.ParseFS(templates, x.template)
		if err != nil {
			return nil, fmt.Errorf("read unit %s: %w", x.template, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data{l, x.several}); err != nil {
			return nil, fmt.Errorf("write unit %s: %w", x.template, err)
		}
		files = append(files, File{x.path, b.String()})
	}
	return files, nil
}
