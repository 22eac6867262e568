package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	if err != nil && s.Phase != supervisor.PhaseServing || err != nil && !s.Alive() {
		return errors.New(explain(ctx, s)) // the address is not served yet, or any more
	}
	if err != nil {
		return fmt.Errorf("ask %s for its health: %w", s.Listen, err)
	}
	if reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("health is %s, want SERVING: %s", reply.GetStatus(), explain(ctx, s))
	}
	fmt.Fprintf(out, "server %s at %s takes requests\n", s.Instance, s.Listen)
	return nil
}

// explain says why a server is not ready: what its page says, or else its state file.
func explain(ctx context.Context, s *supervisor.State) string {
	text := about(s)
	if s.HTTP == "" || !s.Alive() {
		return text
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+"/readyz", nil)
	if err != nil {
		return text
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // of this machine, whatever proxies there are
	reply, err := client.Do(ask)
	if err != nil {
		return text
	}
	defer reply.Body.Close()
	why, err := io.ReadAll(io.LimitReader(reply.Body, 4096))
	if err != nil || reply.StatusCode != http.StatusServiceUnavailable {
		return text
	}
	return fmt.Sprintf("server %s (pid %d): %s", s.Instance, s.PID, strings.TrimSpace(string(why)))
}
