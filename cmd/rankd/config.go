package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check, print and make the configuration of a server",
		Long: `Everything that can be set about a server is a flag of "rankd serve". It can also stand in a YAML
file, one setting a line, named as the flag, or in the environment. A flag wins over the environment,
that over the file, and that over the default.

  rankd config example > rankd.yaml               a file with every setting, explained
  rankd config check rankd.yaml                   everything that is wrong with it
  rankd doctor --config rankd.yaml                whether this machine can serve it
  rankd serve --config rankd.yaml

The file of a service is ` + config.DefaultFile + `.`,
		GroupID: "run",
	}
	cmd.AddCommand(newConfigCheck(), newConfigPrint(), newConfigExample())
	return cmd
}

// serverFlags gives a command the flags of serve, so that it can be asked about what serve would be given. Its help does not
// repeat them.
func serverFlags(cmd *cobra.Command) *serveConfig {
	c := newServeConfig()
	config.BindSections(cmd.Flags(), c.sections())
	config.DeferErrors(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != config.FileFlag })
	cmd.Flags().Lookup(config.FileFlag).Annotations = nil // it stands with the command's own
	return c
}

func newConfigCheck() *cobra.Command {
	var c *serveConfig
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "tell everything that is wrong with a configuration",
		Long: `Check FILE, by default ` + config.DefaultFile + `, together with the environment and with the
flags of "rankd serve", which this command takes too: what "rankd serve --config FILE" with the same
flags would start with. Every mistake is told at once, with file and line: unknown settings, values
of a wrong type or out of bounds, settings that contradict each other, a model or a plugin that is
not there. Nothing is started.

Exit code: 0 if all is right, 78 if not.`,
		Example: `  rankd config check
  rankd config check rankd.yaml --model /srv/models/new`,
		Args: arguments("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := chooseFile(cmd.Flags(), args, os.Getenv); err != nil {
				return problems("config check", err)
			}
			bundle, origins, err := c.load(cmd.Flags())
			if err != nil {
				return problems("config check", err)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s is right: %s\n", c.general.Config, origins.Summary(c.general.Config))
			fmt.Fprintf(out, "model %s version %s in %s\n", bundle.Manifest.Name, bundle.Manifest.Version, bundle.Dir)
			for _, text := range origins.Idle(cmd.Flags()) {
				fmt.Fprintln(out, "warning:", text)
			}
			fmt.Fprintf(out, "next: rankd doctor --config %s\n", c.general.Config)
			return nil
		},
	}
	c = serverFlags(cmd)
	return cmd
}

// chooseFile settles which file is looked at: the argument, else --config or its variable, else the service's.
func chooseFile(flags *pflag.FlagSet, args []string, getenv func(string) string) error {
	given := flags.Changed(config.FileFlag)
	switch {
	case len(args) > 0 && given:
		return fmt.Errorf("check --config: got %s and the argument %q, want one of them", flags.Lookup(config.FileFlag).Value, args[0])
	case len(args) > 0:
		return flags.Set(config.FileFlag, args[0])
	case given:
		return nil
	}
	if path := getenv(config.EnvName(config.FileFlag)); path != "" {
		return flags.Set(config.FileFlag, path)
	}
	return flags.Set(config.FileFlag, config.DefaultFile)
}

// printConfig is what a person may say about printing itself.
type printConfig struct {
	Effective bool `flag:"effective" file:"no" help:"all settings, not only those that somebody has set"`
}

func newConfigPrint() *cobra.Command {
	var c *serveConfig
	p := &printConfig{}
	cmd := &cobra.Command{
		Use:   "print",
		Short: "print settings, each with the place where its value comes from",
		Long: `Print what "rankd serve" with the same flags, environment and --config would take, each setting with
its origin: the file and the line, the environment variable, "flag" or "default", and which weaker
places have a value, too. What is printed is a configuration file itself. Values are read, but not
checked: that does "rankd config check".`,
		Example: `  rankd config print --config rankd.yaml               what somebody has set
  rankd config print --config rankd.yaml --effective   every setting, defaults included`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := config.Fill(cmd.Flags())
			if err != nil {
				return problems("config print", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "# %s\n\n%s", origins.Summary(c.general.Config), config.Effective(c.sections(), origins, p.Effective))
			return nil
		},
	}
	c = serverFlags(cmd)
	bind(cmd, p)
	return cmd
}

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "print a configuration file with every setting, explained",
		Long:    "Print a configuration file in which every setting stands with its meaning, its bounds and, behind \"#\",\nits default. As it is printed it changes nothing.",
		Example: "  rankd config example > rankd.yaml",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := config.Example(newServeConfig().sections())
			if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
				return errors.Join(errors.New("config example: write the file"), err)
			}
			return nil
		},
	}
}
