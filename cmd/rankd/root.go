package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"rankd/internal/config"
)

const rootLong = `rankd serves ranking models (DLRM family): embedding tables in host memory, one copy shared
by all frontend processes, and the dense network on an accelerator through a PJRT plugin.

  rankd model create-demo demo --max-vocab 1000   make a model to try
  rankd serve --model demo                        serve it on 127.0.0.1:8500
  rankd predict --model demo                      score its golden requests and compare

A server is one supervisor, N frontends (gRPC: rankd.v1, KServe v2, health, reflection) and
one device owner. Watch it at http://127.0.0.1:8501/statusz or with "rankd inspect".

Every flag of a command can also be set by an environment variable: --shm-dir is
RANKD_SHM_DIR. A flag wins over the environment. Whatever is typed wrong ends with exit code 78.`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "rankd",
		Short:         "serve ranking models from shared tables and one accelerator",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"},
		&cobra.Group{ID: "tools", Title: "Tools:"},
	)
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.AddCommand(newServe(), newFrontend(), newDeviceOwner(), newModel(), newPredict(), newInspect(), newBench())
	root.SetHelpCommand(newHelp())
	root.Version = "set"
	root.SetVersionTemplate(versionText())
	root.InitDefaultVersionFlag()
	hideValues(root.Flags(), "version")
	root.SetFlagErrorFunc(flagError)
	harden(root)
	// Groups can run only to say what is wrong; help is to show their sub-commands alone.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}"))
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { prepareTool(root, cmd) }
	return root
}

// prepareTool readies all that is not a server or a part of one: Ctrl-C ends its work in order, so that it removes what is half
// made, and a second one ends it at once. Processes of servers see to signals themselves.
func prepareTool(root, cmd *cobra.Command) {
	switch cmd.Name() {
	case "serve", "frontend", "deviceowner":
		return
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	context.AfterFunc(ctx, stop)
	cmd.SetContext(ctx)
	for _, name := range unknownVariables(root, os.Environ()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "rankd: warning: environment variable %s is read by nothing\n", name)
	}
}

// bind registers the flags of each config struct and lets the environment fill those that are not given.
func bind(cmd *cobra.Command, structs ...any) {
	for _, s := range structs {
		config.Bind(cmd.Flags(), s)
	}
}

// fromEnvironment fills the flags that the command line leaves alone.
func fromEnvironment(fs *pflag.FlagSet) error {
	return withCode(config.ApplyEnv(fs), config.ExitBadConfig)
}

// newLogger logs text to a terminal and JSON to everything else.
func newLogger(format string) *slog.Logger {
	if format == "text" || format == "auto" && isTerminal(os.Stderr) {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, nil))
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
