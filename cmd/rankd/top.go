package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"rankd/internal/config"
	"rankd/supervisor"
	"rankd/top"
)

// topConfig says which server is shown.
type topConfig struct {
	HTTP  string        `flag:"http" unit:"host:port" help:"address of the server's status page, as its --http"`
	Every time.Duration `flag:"every" min:"100ms" max:"1m" help:"time between two readings"`
	Once  bool          `flag:"once" help:"print once and end, as it does where the output is no terminal"`
}

func newTop() *cobra.Command {
	c := &topConfig{HTTP: supervisor.Default().HTTP, Every: time.Second}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "watch a server in the terminal, as its status page in a browser",
		Long: `Show what a server does now and did in the last minutes: rows, requests and refusals a second, latency,
queue, batches and processors as lines of little bars; the stages of requests; its processes; and what
happened to it lately. It is renewed every second; q ends it.`,
		Example: `  rankd top
  rankd top --http 127.0.0.1:8601
  rankd top --once | head -2`,
		Args:    arguments(),
		GroupID: "look",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(cmd, func() error { return config.Check(c) }); err != nil {
				return err
			}
			if err := c.run(cmd.Context(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("top: %w", err)
			}
			return nil
		},
	}
	bind(cmd, c)
	return cmd
}

func (c *topConfig) run(ctx context.Context, out io.Writer) error {
	if f, ok := out.(*os.File); !c.Once && ok && isTerminal(f) && isTerminal(os.Stdin) {
		return top.Run(ctx, c.HTTP, c.Every, os.Stdin, f)
	}
	r, err := top.Read(ctx, c.HTTP)
	if err != nil {
		return err
	}
	return r.Status.WriteText(out, r.Samples, r.At)
}
