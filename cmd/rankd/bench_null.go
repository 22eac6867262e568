package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"rankd/bench/nullserver"
)

// nullConfig is what a person may set about a server that does nothing.
type nullConfig struct {
	Listen     string `flag:"listen" unit:"host:port" help:"address to listen on"`
	Threads    int    `flag:"threads" min:"1" max:"64" help:"threads of the server"`
	ReplyBytes int    `flag:"reply-bytes" min:"0" max:"16379" unit:"bytes" help:"size of the reply's message"`
}

func newBenchNullServer() *cobra.Command {
	c := nullConfig{Listen: "127.0.0.1:8510", Threads: 1, ReplyBytes: 64}
	return tool(&cobra.Command{
		Use:   "null-server",
		Short: "answer every call with the same bytes, to see what the load generator itself costs",
		Long: `Answer every unary gRPC call with the same bytes, without looking at it. With "bench load
--verify=false" against it one sees what the load generator and the kernel cost; no server can be
measured beyond that.`,
		Example: `  rankd bench null-server &
  rankd bench load --model demo --target 127.0.0.1:8510 --verify=false --server-pid $!`,
	}, func(ctx context.Context, out, _ io.Writer) error {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "READY %s\n", l.Addr())
		return nullserver.Serve(ctx, l, c.Threads, c.ReplyBytes)
	}, &c)
}
