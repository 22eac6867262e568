package frontend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"rankd/frontend/trace"
	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// grpcServer is the transport that is built on grpc-go.
type grpcServer struct {
	core   *Core
	log    *slog.Logger
	server *grpc.Server
	health *healthService
}

func newGRPCServer(core *Core, tracer *trace.Tracer, log *slog.Logger) *grpcServer {
	cfg := &core.cfg
	g := &grpcServer{core: core, log: log, health: newHealthService()}
	buffers := newBuffers()
	g.server = grpc.NewServer(
		experimental.BufferPool(buffers),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(int(cfg.MaxRequestBytes)),
		grpc.MaxSendMsgSize(math.MaxInt32), // whether a reply is too large is for the client to say
		grpc.MaxConcurrentStreams(cfg.MaxStreams),
		grpc.WaitForHandlers(true), // they refer to mapped memory
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: cfg.KeepaliveMinTime, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: cfg.MaxConnectionAge, MaxConnectionAgeGrace: cfg.MaxConnectionGrace,
			Time: cfg.KeepaliveTime, Timeout: cfg.KeepaliveTimeout,
		}),
		grpc.UnaryInterceptor(g.recoverUnary),
		grpc.StreamInterceptor(g.recoverStream),
	)
	scores := scorer{core: core, pool: buffers, tracer: tracer}
	g.server.RegisterService(predictDesc(), &predictor{scorer: scores})
	g.server.RegisterService(inferDesc(), &kserve{scorer: scores})
	grpc_health_v1.RegisterHealthServer(g.server, g.health)
	reflection.Register(g.server) // v1 and v1alpha
	return g
}

// recoverUnary keeps a panic in a handler from ending the process.
func (g *grpcServer) recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (reply any, err error) {
	defer g.rescue(&err)
	return h(ctx, req)
}

func (g *grpcServer) recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer g.rescue(&err)
	return h(srv, stream)
}

func (g *grpcServer) rescue(err *error) {
	if p := recover(); p != nil {
		g.core.panicked(p)
		*err = errPanic.Status().Err()
	}
}

// serve accepts connections until drain or stop; it returns nil after either.
func (g *grpcServer) serve(l net.Listener) error {
	if err := g.server.Serve(countedListener{l, g.core.meter.block}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// settleTime is how long connections have to close by themselves once the last call was answered.
const settleTime = 500 * time.Millisecond

// drain ends the service in order: health says NOT_SERVING, connections are told to go, open calls end, new ones are
// refused as "draining". It is bounded by --drain-timeout, after --drain-delay, and by ctx.
func (g *grpcServer) drain(ctx context.Context) {
	cfg := &g.core.cfg
	g.health.shutdown()
	if cfg.DrainDelay > 0 {
		select {
		case <-time.After(cfg.DrainDelay):
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.DrainTimeout)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		g.server.GracefulStop()
	}()
	if err := g.core.Drain(ctx); err != nil {
		g.log.Warn("drain was cut short", "open_calls", g.core.open.Load(), "drain_timeout", cfg.DrainTimeout)
	}
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	select {
	case <-gone:
	case <-settle.C: // streams that have no end, such as reflection, hold their connection open
	case <-ctx.Done():
	}
	g.server.Stop()
	<-gone
}

// predictor is rankd.v1.PredictionService; its one method is a stream of the scorer.
type predictor struct {
	rankdpb.UnimplementedPredictionServiceServer
	scorer
}

var _ kservepb.GRPCInferenceServiceServer = (*kserve)(nil)
