package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
)

const (
	helpWidth  = 100 // letters of a line
	flagColumn = 34  // where the meaning of a flag begins
)

// writeUsage is what help shows after the description: how the command is called, its sub-commands, and its flags by section.
func writeUsage(cmd *cobra.Command) error {
	_, err := io.WriteString(cmd.OutOrStderr(), usageText(cmd))
	return err
}

func usageText(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	writeCommands(&b, cmd)
	writeFlags(&b, cmd.LocalFlags(), "Flags")
	if cmd.HasParent() {
		writeFlags(&b, cmd.InheritedFlags(), "Flags of "+cmd.Parent().CommandPath())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" tells more about a command.\n", cmd.CommandPath())
	}
	return b.String()
}

// writeCommands lists sub-commands, those of a group together.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	width := 0
	for _, sub := range cmd.Commands() {
		width = max(width, len(sub.Name()))
	}
	group := func(title, id string) {
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() && sub.Name() != "help" || sub.GroupID != id {
				continue
			}
			if title != "" {
				fmt.Fprintf(b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(b, "  %-*s  %s\n", width, sub.Name(), sub.Short)
		}
	}
	for _, g := range cmd.Groups() {
		group(g.Title, g.ID)
	}
	group("Commands:", "")
}

// writeFlags lists flags in the order in which they were declared. Flags of no section stand under the title.
func writeFlags(b *strings.Builder, flags *pflag.FlagSet, title string) {
	var sections []string
	bySection := map[string][]*pflag.Flag{}
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		s := config.SectionOf(f)
		if s == "" {
			s = title
		}
		if !slices.Contains(sections, s) {
			sections = append(sections, s)
		}
		bySection[s] = append(bySection[s], f)
	})
	slices.SortStableFunc(sections, func(x, y string) int { // what every command has comes last
		return b2i(x == title) - b2i(y == title)
	})
	for _, s := range sections {
		fmt.Fprintf(b, "\n%s:\n", s)
		for _, f := range bySection[s] {
			writeFlag(b, f)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	about := f.Usage
	if text, ours := config.Text(f); ours {
		about = text.About
		if text.Placeholder != "" {
			name += " " + text.Placeholder
		}
		more := text.Limits
		if text.Default != "" {
			more = append(more, "default "+text.Default)
		}
		if len(more) > 0 {
			about += " (" + strings.Join(more, ", ") + ")"
		}
	}
	lines := config.Wrap(about, helpWidth-flagColumn)
	if len(name) > flagColumn-2 {
		b.WriteString(name + "\n")
		name = ""
	}
	for _, line := range lines {
		fmt.Fprintf(b, "%-*s%s\n", flagColumn, name, line)
		name = ""
	}
}
