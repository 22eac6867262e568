package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const askLimit = time.Second

// awaitReady asks the server until it says that it is ready.
func (s *Server) awaitReady(ctx context.Context, o *Options) error {
	limit := o.Ready
	if limit == 0 {
		limit = readyLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if s.ready(ctx, o) {
			return nil
		}
		select {
		case err := <-s.exited:
			return fmt.Errorf("it has ended: %w", errors.Join(err, errors.New("not ready")))
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (s *Server) ready(ctx context.Context, o *Options) bool {
	if len(o.Command) == 0 {
		return s.readyz()
	}
	return s.announced() && (!o.Health || serving(ctx, s.Target))
}

// readyz asks rankd's status page.
func (s *Server) readyz() bool {
	client := &http.Client{Timeout: askLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + s.HTTP + "/readyz")
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// announced reports whether the server has printed that it is ready.
func (s *Server) announced() bool {
	text, err := os.ReadFile(s.logPath())
	return err == nil && (bytes.HasPrefix(text, []byte("READY")) || bytes.Contains(text, []byte("\nREADY")))
}

// serving asks the health service of gRPC.
func serving(ctx context.Context, target string) bool {
	c, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
	return err == nil && r.GetStatus() == healthpb.HealthCheckResponse_SERVING
}
