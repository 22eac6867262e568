package main

import (
	"github.com/spf13/cobra"

	"rankd/deviceowner"
	"rankd/frontend"
	"rankd/internal/faults"
)

// newFrontend is the role that the supervisor starts for each frontend process.
func newFrontend() *cobra.Command {
	cfg := frontend.Default()
	cmd := &cobra.Command{
		Use:    "frontend",
		Short:  "a frontend process; started by serve",
		Args:   arguments(),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			faults.Become(faults.Frontend, cfg.Index, cfg.Incarnation)
			err := frontend.Run(cmd.Context(), cfg, newLogger("json"))
			return withCode(err, frontend.ExitCode(err))
		},
	}
	bind(cmd, &cfg)
	return cmd
}

// newDeviceOwner is the role of the one process that opens the device.
func newDeviceOwner() *cobra.Command {
	cfg := deviceowner.Default()
	cmd := &cobra.Command{
		Use:    "deviceowner",
		Short:  "the device owner's process; started by serve",
		Args:   arguments(),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			faults.Become(faults.DeviceOwner, cfg.Index, cfg.Incarnation)
			err := deviceowner.Run(cmd.Context(), cfg, newLogger("json"))
			return withCode(err, deviceowner.ExitCode(err))
		},
	}
	bind(cmd, &cfg)
	return cmd
}
