package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"rankd/supervisor"
)

// readyLimit bounds the question: a server that takes longer is not ready.
const readyLimit = 2 * time.Second

// inspectReady asks grpc.health.v1 of the server; the error, and so the exit code, is for scripts and probes.
func inspectReady(_ *inspectConfig, s *supervisor.State, out io.Writer) error {
	conn, err := grpc.NewClient(s.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Listen, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("ask %s for its health: %w", s.Listen, err)
	}
	if reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("server %s is %s, want SERVING", s.Instance, reply.GetStatus())
	}
	fmt.Fprintf(out, "server %s at %s takes requests\n", s.Instance, s.Listen)
	return nil
}
