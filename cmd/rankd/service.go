package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rankd/deploy/systemd"
	"rankd/internal/config"
)

func newService() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "run a server under systemd",
		Long: `Make a server a service of systemd: units for rankd, for several servers on one machine
(rankd@NAME.service), for the memory of the tables, which outlives the service, and, optional, for
huge pages that are reserved at boot. The service runs as a user of its own, in a sandbox.

The Debian package brings these units along; "rankd service install" is for a binary that came in
another way.`,
		GroupID: "run",
	}
	cmd.AddCommand(newServiceInstall(), newServiceUninstall(), newServicePrint())
	return cmd
}

// serviceConfig is what a person may set about the service.
type serviceConfig struct {
	Binary string `flag:"binary" unit:"file" help:"what the service executes; empty: this program"`
	User   string `flag:"user" help:"system user that the server runs as; it is made if there is none"`
	Config string `flag:"config-file" unit:"file" help:"configuration file of the service; one with every setting is written if there is none"`
}

func defaultService() serviceConfig {
	l := systemd.Packaged()
	return serviceConfig{User: l.User, Config: l.Config}
}

// layout is that of the settings, and what is wrong with them.
func (c *serviceConfig) layout() (systemd.Layout, error) {
	if c.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return systemd.Layout{}, fmt.Errorf("find this command: %w", err)
		}
		c.Binary = self
	}
	l := systemd.Installed(c.Binary)
	l.User, l.Config = c.User, c.Config
	return l, l.Validate()
}

// installConfig is what a person may set about an installation.
type installConfig struct {
	Model  string `flag:"model" unit:"directory" help:"model bundle for the configuration file, if that is written"`
	Enable bool   `flag:"enable" help:"start the service at boot, and now"`
	DryRun bool   `flag:"dry-run" help:"only say what would be done"`
	Root   string `flag:"root" unit:"directory" help:"write the files below this directory, for an image or a package, and run nothing"`

	Packaged bool `flag:"packaged" hidden:"true" help:"the places of the package, below --root"`
}

func newServiceInstall() *cobra.Command {
	c, i := defaultService(), installConfig{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "install the units, the user and a configuration file",
		Long: `Install the service: a system user, the units below /etc/systemd/system, and a configuration file
with every setting, unless there is one. Running it again brings the units up to date. It needs
root.

Change what systemd does with drop-ins (systemctl edit rankd), not in the units.`,
		Example: `  rankd service install --dry-run
  rankd service install --model /var/lib/rankd/models/demo --enable
  rankd service install --root image/ --binary /usr/bin/rankd`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(cmd, func() error { return checkAll(&c, &i) }); err != nil {
				return err
			}
			if err := i.run(cmd.Context(), &c, cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("service install: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c, &i)
	return cmd
}

func (i *installConfig) run(ctx context.Context, c *serviceConfig, out io.Writer) error {
	l, err := c.layout()
	if i.Packaged {
		l, err = systemd.Packaged(), nil
	}
	if err != nil {
		return withCode(err, config.ExitBadConfig)
	}
	if i.Root == "" && !i.DryRun {
		if err := manageable(); err != nil {
			return withCode(err, config.ExitBadConfig)
		}
	}
	files, err := l.Files()
	if err != nil {
		return err
	}
	changes, err := systemd.Write(i.Root, files, i.DryRun)
	tellChanges(out, changes, i.DryRun)
	if err != nil {
		return err
	}
	// Readable for all: it holds no secrets, and the server's user is not made yet.
	made, err := systemd.WriteNew(i.Root, systemd.File{Path: l.Config, Text: serviceFile(i.Model)}, 0o644, i.DryRun)
	if err != nil {
		return err
	}
	tellChanges(out, []systemd.Change{made}, i.DryRun)
	if i.Root != "" {
		return nil
	}
	steps := [][]string{{"systemd-sysusers", files[0].Path}, {"systemctl", "daemon-reload"}}
	if i.Enable {
		steps = append(steps, []string{"systemctl", "enable", "--now", "rankd.service"})
	}
	if err := perform(ctx, steps, i.DryRun, out); err != nil {
		return err
	}
	nextSteps(out, l.Config, i)
	return nil
}

// serviceFile is the configuration file of a new service.
func serviceFile(model string) string {
	values := map[string]string{}
	if model != "" {
		values["model"] = model
	}
	return config.ExampleWith(newServeConfig().sections(), values)
}

func nextSteps(out io.Writer, file string, i *installConfig) {
	fmt.Fprintln(out, "\nnext:")
	if i.Model == "" {
		fmt.Fprintf(out, "  edit %s: set at least model, a directory that the service may read\n", file)
	}
	fmt.Fprintf(out, "  rankd config check %s\n  rankd doctor --config %s\n", file, file)
	if !i.Enable {
		fmt.Fprintln(out, "  systemctl enable --now rankd")
	}
	fmt.Fprintln(out, "  systemctl status rankd\n  journalctl -u rankd -e")
}

func newServiceUninstall() *cobra.Command {
	c := defaultService()
	var d struct {
		DryRun bool `flag:"dry-run" help:"only say what would be done"`
	}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "stop the service and remove the units",
		Long: `Stop and disable the service, give the memory of the tables back, and remove the units that
"rankd service install" with the same flags has written. What somebody has edited stays, and so do the
configuration file, the models and the user. It needs root.`,
		Example: "  rankd service uninstall --dry-run\n  rankd service uninstall",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(cmd, func() error { return checkAll(&c, &d) }); err != nil {
				return err
			}
			if err := c.uninstall(cmd.Context(), d.DryRun, cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("service uninstall: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c, &d)
	return cmd
}

func (c *serviceConfig) uninstall(ctx context.Context, dry bool, out io.Writer) error {
	l, err := c.layout()
	if err != nil {
		return withCode(err, config.ExitBadConfig)
	}
	if !dry {
		if err := manageable(); err != nil {
			return withCode(err, config.ExitBadConfig)
		}
	}
	files, err := l.Files()
	if err != nil {
		return err
	}
	// What is not there can't be stopped, which is as well.
	stop := [][]string{{"systemctl", "disable", "--now", "rankd.service", "rankd-hugepages.service"}, {"systemctl", "stop", "rankd@*.service", systemd.TablesUnit}}
	for _, s := range stop {
		if err := perform(ctx, [][]string{s}, dry, out); err != nil {
			fmt.Fprintf(out, "  (%v)\n", err)
		}
	}
	changes, err := systemd.Remove("", files, dry)
	tellChanges(out, changes, dry)
	if err != nil {
		return err
	}
	return perform(ctx, [][]string{{"systemctl", "daemon-reload"}}, dry, out)
}

func newServicePrint() *cobra.Command {
	c := defaultService()
	cmd := &cobra.Command{
		Use:     "print",
		Short:   "print the units",
		Long:    "Print the files that \"rankd service install\" with the same flags writes, each with its path.",
		Example: "  rankd service print\n  rankd service print --binary /usr/bin/rankd --user ranker",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(cmd, func() error { return checkAll(&c) }); err != nil {
				return err
			}
			l, err := c.layout()
			if err != nil {
				return withCode(fmt.Errorf("service print: %w", err), config.ExitBadConfig)
			}
			files, err := l.Files()
			if err != nil {
				return fmt.Errorf("service print: %w", err)
			}
			for _, f := range files {
				fmt.Fprintf(cmd.OutOrStdout(), "# ==== %s\n%s\n", f.Path, f.Text)
			}
			return nil
		},
	}
	bind(cmd, &c)
	return cmd
}

// manageable is an error where services cannot be installed.
func manageable() error {
	var errs []error
	if uid := os.Geteuid(); uid != 0 {
		errs = append(errs, fmt.Errorf("got user %d, want root: run it with sudo, or with --dry-run to see what it would do", uid))
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		errs = append(errs, errors.New("systemd does not run here: write the files for another machine with --root DIR, or run \"rankd serve\" under what does run here"))
	}
	return errors.Join(errs...)
}

func tellChanges(out io.Writer, changes []systemd.Change, dry bool) {
	for _, c := range changes {
		what := c.What
		if dry && (what == "written" || what == "removed") {
			what = "would be " + what
		}
		fmt.Fprintf(out, "%s: %s\n", c.Path, what)
	}
}

// perform runs commands, each told, or only tells them.
func perform(ctx context.Context, steps [][]string, dry bool, out io.Writer) error {
	for _, s := range steps {
		line := strings.Join(s, " ")
		if dry {
			fmt.Fprintf(out, "would run: %s\n", line)
			continue
		}
		fmt.Fprintf(out, "$ %s\n", line)
		text, err := exec.CommandContext(ctx, s[0], s[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("run %s: %w: %s", filepath.Base(line), err, strings.TrimSpace(string(text)))
		}
	}
	return nil
}
