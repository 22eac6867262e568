package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rankd/deviceowner/ahead"
	"rankd/internal/config"
	"rankd/model"
)

// compileConfig is what a person may set about executables.
type compileConfig struct {
	ahead.Settings
	Fresh bool `flag:"fresh" help:"drop the executables that the bundle has so far, also those for other batch sizes, devices, plugins and options"`
}

func newModelCompile() *cobra.Command {
	c := compileConfig{Settings: ahead.Settings{Platform: "cpu"}}
	cmd := &cobra.Command{
		Use:   "compile DIR",
		Short: "compile a bundle's programs ahead of time, so that servers start at once",
		Long: `Compile the programs of the bundle in DIR with a PJRT plugin, one executable a batch size, and store
them in DIR/executables. A server loads those that fit its device and compiles the others; its log
and its status page say for each batch size which it was.

Without --topology the device of this machine compiles; an executable for the cpu platform fits
machines with the same processor and the same number of --device-threads. With --topology a plugin
that can compile without a device does so for those named: libtpu takes v6e:1x1, v6e:2x2, v5e:1x1,
v5p:2x2x1 and the like. A server uses the first chip; name as many as its host has.

An executable fits one version of the plugin, so install here the very file that serves there, and set
XLA_FLAGS and LIBTPU_INIT_ARGS alike. Running it again replaces what is there for the same device,
plugin, options and batch sizes; executables of programs that the bundle no longer has go, all others
stay. The bundle's other files stay as they are, and so does its manifest.`,
		Example: `  rankd model compile demo
  rankd model compile demo --platform tpu --topology v6e:1x1
  rankd model check demo --no-run`,
		Args: arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(cmd, c.Validate); err != nil {
				return err
			}
			if err := c.run(cmd.Context(), args[0], cmd.ErrOrStderr(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("compile model: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c)
	return cmd
}

func (c *compileConfig) run(ctx context.Context, dir string, progress, out io.Writer) error {
	b, err := model.Open(dir)
	if err != nil {
		return err
	}
	report, err := ahead.Run(ctx, ahead.Options{
		Bundle: b, Settings: c.Settings, Fresh: c.Fresh,
		Command: func(s ahead.Settings) []string {
			return append([]string{"/proc/self/exe", "model", "compile-child", dir}, config.ToArgs(&s)...)
		},
		Progress: func(s ahead.Step) { tellStep(progress, s) },
	})
	if err != nil {
		return err
	}
	var bytes int64
	for _, x := range report.Items {
		bytes += x.Bytes
	}
	fmt.Fprintf(out, "stored %d executables, %s, in %s\n", len(report.Items), config.Bytes(bytes).Human(), b.Path(model.ExecutablesDir))
	if sizes := report.Kept.Buckets; len(sizes) > 0 {
		fmt.Fprintf(out, "kept those of batch %s; --fresh drops them\n", listed(sizes))
	}
	if n := report.Kept.Others; n > 0 {
		fmt.Fprintf(out, "kept %d for other devices, plugins or options; --fresh drops them\n", n)
	}
	return nil
}

func tellStep(out io.Writer, s ahead.Step) {
	switch {
	case s.Target != "":
		fmt.Fprintf(out, "compiling for %s\n", s.Target)
	case s.Bucket == 0:
		fmt.Fprintf(out, "opening the plugin for %.0f s\n", s.Elapsed.Seconds())
	case s.Bytes == 0:
		fmt.Fprintf(out, "batch %d: compiling for %.0f s\n", s.Bucket, s.Elapsed.Seconds())
	default:
		fmt.Fprintf(out, "batch %d: compiled in %.2f s, %s\n", s.Bucket, s.Elapsed.Seconds(), config.Bytes(s.Bytes).Human())
	}
}

// newModelCompileChild is the process in which the plugin works.
func newModelCompileChild() *cobra.Command {
	s := ahead.Settings{Platform: "cpu"}
	cmd := &cobra.Command{
		Use:    "compile-child DIR",
		Short:  "the compiler's process; started by compile",
		Args:   arguments("DIR"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := model.Open(args[0])
			if err != nil {
				return err
			}
			events := os.NewFile(ahead.EventFD, "events")
			return errors.Join(ahead.Child(cmd.Context(), b, s, events), events.Close())
		},
	}
	bind(cmd, &s)
	return cmd
}

// checkExecutables reads what compile has stored and says what that is.
func checkExecutables(b *model.Bundle, out io.Writer) error {
	list, err := ahead.Check(b)
	if err != nil {
		return err
	}
	for _, s := range list {
		target := s.Platform
		if s.Target != "" {
			target += " " + s.Target
		}
		fmt.Fprintf(out, "executables for %s (%s, %s %.12s): batch %s; digests are right\n",
			target, s.Device, s.Plugin, s.Digest, listed(s.Buckets))
	}
	return nil
}

// listed are numbers as a person writes them: 1, 4, 32.
func listed(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}
