package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManual writes what the package installs beside the binary. People have "help" and "completion".
func newManual() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "write man pages and completions of shells into a directory, for packages",
		Args:   arguments("DIR"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeManual(cmd.Root(), args[0]); err != nil {
				return fmt.Errorf("manual: %w", err)
			}
			return nil
		},
	}
}

func writeManual(root *cobra.Command, dir string) error {
	for _, name := range []string{"man1", "completions"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "rankd", Manual: "rankd"}
	if err := doc.GenManTree(root, header, filepath.Join(dir, "man1")); err != nil {
		return err
	}
	for name, write := range map[string]func(string) error{
		"rankd.bash": func(p string) error { return root.GenBashCompletionFileV2(p, true) }, "_rankd": root.GenZshCompletionFile,
		"rankd.fish": func(p string) error { return root.GenFishCompletionFile(p, true) },
	} {
		if err := write(filepath.Join(dir, "completions", name)); err != nil {
			return err
		}
	}
	return nil
}
