package main

import (
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
	"rankd/predict"
)

const predictLong = `Score the examples of FILE on a running server and print the scores, one line a row. FILE is .npz,
JSON lines (.jsonl), Criteo click logs (.tsv: label, 13 integers, 26 hexadecimal ids), or .safetensors.
Without FILE the golden requests of the bundle are scored and compared with their reference scores,
unless the server says that its accelerator is simulated. A summary with latencies goes to standard
error. The server is the one at --target, else at RANKD_LISTEN, else at 127.0.0.1:8500.`

func newPredict() *cobra.Command {
	c := predict.Default()
	cmd := &cobra.Command{
		Use:   "predict [FILE]",
		Short: "score a file, or a model's golden requests, on a running server",
		Long:  predictLong,
		Example: `  rankd predict --model DIR                     golden requests, compared with the reference
  rankd predict --model DIR day_0.tsv           a Criteo log
  rankd predict --model-name ctr examples.npz   arrays named as the model's inputs`,
		Args:    arguments("[FILE]"),
		GroupID: "look",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(cmd, func() error { return config.Check(&c) }); err != nil {
				return err
			}
			followServer(cmd.Flags(), &c, os.Getenv)
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			if err := predict.Run(cmd.Context(), c, file, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return fmt.Errorf("predict: %w", err)
			}
			return nil
		},
	}
	bind(cmd, &c)
	return cmd
}

// followServer lets RANKD_LISTEN, which says where serve serves and inspect looks, name the target too, unless that is given.
// Of a server on all addresses it takes the local one.
func followServer(flags *pflag.FlagSet, c *predict.Config, getenv func(string) string) {
	host, port, err := net.SplitHostPort(getenv(config.EnvName("listen")))
	if err != nil || flags.Changed("target") {
		return
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	c.Target = net.JoinHostPort(host, port)
}
