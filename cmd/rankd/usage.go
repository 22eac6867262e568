package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
)

// usageError is what a person typed wrong; it ends with the code of bad configuration.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	name := commandName(cmd)
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
	given := cmd.Flags().Args() // before the flag
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case cmd.HasSubCommands() && len(given) > 0: // the flag was meant for another command
		return noCommand(cmd, cmd, given[0])
	case errors.As(err, &missing):
		f := missing.GetFlag()
		text, _ := config.Text(f)
		return usageError(cmd, "check --%s: got no value, want --%s %s", f.Name, f.Name, text.Placeholder)
	case errors.As(err, &invalid):
		return usageError(cmd, "check --%s: %w", invalid.GetFlag().Name, valueError(invalid))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usageError(cmd, "no flag is named --%s%s", unknown.GetSpecifiedName(), nearFlag(cmd, unknown.GetSpecifiedName()))
	}
	return usageError(cmd, "%w", err)
}

// nearFlag tells those who mistyped a flag which one they have most likely meant.
func nearFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden || config.SectionOf(f) != "" { // doctor has those of serve, which its help does not repeat
			names = append(names, f.Name)
		}
	})
	if near := config.Nearest(name, names); near != "" {
		return fmt.Sprintf(", is --%s meant?", near)
	}
	return ""
}

// noCommand says that there is no such sub-command, and which there are.
func noCommand(cmd, group *cobra.Command, name string) error {
	names := commandNames(group)
	if near := config.Nearest(name, names); near != "" {
		return usageError(cmd, "no command is named %q, is %q meant?", name, near)
	}
	return usageError(cmd, "no command is named %q, want %s", name, strings.Join(names, ", "))
}

// settle fills the flags of a command from the environment, checks them, and reports all that is wrong.
func settle(cmd *cobra.Command, check func() error) error {
	origins, err := config.Fill(cmd.Flags())
	return problems(commandName(cmd), errors.Join(err, origins.Explain(check())))
}

// commandName is the path of a command without the program.
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "rankd"), " ")
}

// problems makes one error of all that is wrong with what a command was given.
func problems(what string, err error) error {
	if err == nil {
		return nil
	}
	var list []string
	for _, leaf := range config.Leaves(err) {
		if text := strings.ReplaceAll(leaf.Error(), "\n", "\n    "); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { // a file from top to bottom, then the rest
		return lineIn(a) - lineIn(b)
	})
	text := list[0]
	if len(list) > 1 {
		text = fmt.Sprintf("%d mistakes:\n  %s", len(list), strings.Join(list, "\n  "))
	}
	return withCode(fmt.Errorf("%s: %s", what, text), config.ExitBadConfig)
}

var place = regexp.MustCompile(`^[^ ]*:(\d+): `)

// lineIn is the line of a file that a message begins with, or more than any.
func lineIn(message string) int {
	m := place.FindStringSubmatch(message)
	if m == nil {
		return math.MaxInt32
	}
	line, err := strconv.Atoi(m[1])
	if err != nil {
		return math.MaxInt32
	}
	return line
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
	cmd.Flags().SortFlags, cmd.PersistentFlags().SortFlags = false, false // help shows them as they were declared
	cmd.InitDefaultHelpFlag()
	hideValues(cmd.Flags(), "help")
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return noCommand(cmd, cmd, args[0])
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
		Use: "help [COMMAND]", Short: "explain a command", Args: cobra.ArbitraryArgs, GroupID: "tools",
		Long: "Explain a command: rankd help model compile says what rankd model compile --help says.",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return usageError(cmd, "%w", err)
			case len(rest) > 0:
				return noCommand(cmd, found, rest[0])
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
