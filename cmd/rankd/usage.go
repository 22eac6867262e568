package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
)

// usageError is what a person typed wrong; it ends with the code of bad configuration.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "rankd"), " ")
	if name != "" {
		name += ": "
	}
	return withCode(fmt.Errorf("%s%w\nsee \"%s --help\"", name, fmt.Errorf(format, args...), cmd.CommandPath()), config.ExitBadConfig)
}

// flagError says what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &missing):
		f := missing.GetFlag()
		return usageError(cmd, "check --%s: got no value, want %s: write --%s=VALUE", f.Name, f.Value.Type(), f.Name)
	case errors.As(err, &invalid):
		return usageError(cmd, "check --%s: %w", invalid.GetFlag().Name, valueError(invalid))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usageError(cmd, "no flag is named --%s", unknown.GetSpecifiedName())
	}
	return usageError(cmd, "%w", err)
}

// valueError makes sure that the text that was given stands in the message.
func valueError(e *pflag.InvalidValueError) error {
	cause := e.Unwrap()
	if quoted := fmt.Sprintf("%q", e.GetValue()); !strings.Contains(cause.Error(), quoted) {
		return fmt.Errorf("got %s: %w", quoted, cause)
	}
	return cause
}

// arguments takes exactly the named arguments; names in brackets may be left out and come last.
func arguments(names ...string) cobra.PositionalArgs {
	least := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			least++
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= len(names) {
			return nil
		}
		want := strings.Join(names, " ")
		if len(args) < least {
			return usageError(cmd, "want %s, got %s", want, quoted(args))
		}
		hint := switchHint(cmd)
		if len(names) == 0 {
			return usageError(cmd, "takes no arguments, got %s%s", quoted(args), hint)
		}
		return usageError(cmd, "want %s, got %s%s", want, quoted(args), hint)
	}
}

// switchHint tells those who wrote "--keep-tables false" how it is meant.
func switchHint(cmd *cobra.Command) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Changed && f.NoOptDefVal == "true" {
			hint = fmt.Sprintf(": write --%s=false if that is its value", f.Name)
		}
	})
	return hint
}

func quoted(args []string) string {
	if len(args) == 0 {
		return "nothing"
	}
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = fmt.Sprintf("%q", a)
	}
	return strings.Join(out, " ")
}

// harden makes every command below cmd report what was typed wrong in one way: with the code of bad configuration, never with help and
// success.
func harden(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	hideValues(cmd.Flags(), "help")
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usageError(cmd, "no command is named %q, want %s", args[0], strings.Join(commandNames(cmd), ", "))
		}
	} else if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return withCode(check(cmd, args), config.ExitBadConfig) }
	}
	for _, sub := range cmd.Commands() {
		harden(sub)
	}
}

// newHelp is cobra's help command, but for names that it does not know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "explain a command", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return usageError(cmd, "%w", err)
			case len(rest) > 0:
				return usageError(cmd, "no command is named %q, want %s", rest[0], strings.Join(commandNames(found), ", "))
			}
			return found.Help()
		},
	}
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	slices.Sort(names)
	return names
}

// hideValues keeps "[=true|false]" out of the help for switches that nobody sets to false.
func hideValues(fs *pflag.FlagSet, name string) {
	if f := fs.Lookup(name); f != nil {
		f.Value = struct{ pflag.Value }{f.Value}
	}
}
