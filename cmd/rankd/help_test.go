package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// visit calls f for every command that help shows, but for those that cobra brings along.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "completion" && sub.Name() != "help" {
			visit(sub, f)
		}
	}
}

func TestHelpIsAsReviewed(t *testing.T) {
	g := newGoldens(t, "help")
	compare := func(cmd *cobra.Command) {
		got, err := execute(append(strings.Fields(commandName(cmd)), "--help")...)
		if err != nil {
			t.Errorf("%s --help: %v", cmd.CommandPath(), err)
		}
		g.compare(t, strings.ReplaceAll(cmd.CommandPath(), " ", "-"), got)
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	visit(root, compare)
	for _, name := range []string{"completion", "help"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		visit(cmd, compare)
	}
	g.finish()
	if len(g.names) < 20 {
		t.Errorf("got %d commands, want all of them", len(g.names))
	}
}

func TestEveryCommandHasWhatANewUserLooksFor(t *testing.T) {
	visit(newRoot(), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s: want a line for the list of commands (Short) and a description (Long)", path)
		}
		if !cmd.HasSubCommands() && !strings.Contains(cmd.Example, path[:len("rankd")]) {
			t.Errorf("%s: want an example", path)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > helpWidth+4 {
				t.Errorf("%s: got a line of %d letters, want at most %d: %s", path, n, helpWidth+4, line)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s: want a help text", path, f.Name)
			}
		})
	})
}
