package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rankd/internal/config"
)

const rootLong = `rankd serves ranking models (DLRM family): embedding tables in host memory, one copy shared
by all frontend processes, and the dense network on an accelerator through a PJRT plugin.

  rankd model create-demo demo --max-vocab 1000   make a model to try
  rankd doctor --model demo                       look whether this machine can serve it
  rankd serve --model demo                        serve it on 127.0.0.1:8500
  rankd predict --model demo                      from another terminal: score its golden requests

A server is one supervisor, N frontends (gRPC: rankd.v1, KServe v2, health, reflection) and
one device owner. Watch it at http://127.0.0.1:8501/statusz, with "rankd top" or "rankd inspect".

A flag of any command can also be set by an environment variable (--shm-dir is RANKD_SHM_DIR), and
those of serve in a file: "rankd config" is about that. Whatever is typed wrong ends with exit code 78.`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "rankd",
		Short:         "serve ranking models from shared tables and one accelerator",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cobra.EnableCommandSorting = false // help shows commands as they are added
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a server:"},
		&cobra.Group{ID: "look", Title: "Look at a server:"},
		&cobra.Group{ID: "tools", Title: "Tools:"},
	)
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.AddCommand(newServe(), newConfig(), newDoctor(), newService(), newInspect(), newTop(), newPredict(), newModel(), newBench(), newDoctorPlugin(), newFrontend(), newDeviceOwner(), newManual())
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Short = "write a script with which a shell completes commands and flags"
	}
	root.Version = "set"
	root.SetVersionTemplate(versionText())
	root.InitDefaultVersionFlag()
	hideValues(root.Flags(), "version")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(writeUsage)
	harden(root)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { prepareTool(root, cmd) }
	return root
}

// prepareTool readies all that is not a server or a part of one: Ctrl-C ends its work in order, so that it removes what is half
// made, and a second one ends it at once. Processes of servers see to signals themselves.
func prepareTool(root, cmd *cobra.Command) {
	switch cmd.Name() {
	case "serve", "frontend", "deviceowner", "doctor-plugin":
		return
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	context.AfterFunc(ctx, stop)
	cmd.SetContext(ctx)
	for _, v := range unknownVariables(root, os.Environ()) {
		hint := ""
		if v.near != "" {
			hint = fmt.Sprintf(": is %s meant?", v.near)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "rankd: warning: environment variable %s is read by nothing%s\n", v.name, hint)
	}
}

// bind registers the flags of each config struct. Those that several commands share have a title in help.
func bind(cmd *cobra.Command, structs ...any) {
	for _, s := range structs {
		section := config.Section{Config: s}
		switch s.(type) {
		case *examConfig:
			section.Title = "Requests"
		case *pacedConfig:
			section.Title = "Servers and runs"
		}
		config.BindSections(cmd.Flags(), []config.Section{section})
	}
}

// checkAll compares structs with their bounds.
func checkAll(structs ...any) error {
	var errs []error
	for _, s := range structs {
		errs = append(errs, config.Check(s))
	}
	return errors.Join(errs...)
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
