package frontend

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// healthService is grpc.health.v1 for the server as a whole ("") and for its two scoring services.
type healthService struct {
	*health.Server
	serving atomic.Bool
	ended   context.Context // done once the frontend drains
	end     context.CancelFunc
}

func healthNames() []string {
	return []string{"", rankdpb.PredictionService_ServiceDesc.ServiceName, kservepb.GRPCInferenceService_ServiceDesc.ServiceName}
}

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.ended, h.end = context.WithCancel(context.Background())
	h.publish(healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// set publishes a change of state; it costs a load when there is none.
func (h *healthService) set(serving bool) {
	if h.serving.Load() == serving {
		return
	}
	h.serving.Store(serving)
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	h.publish(state)
}

func (h *healthService) publish(state healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range healthNames() {
		h.SetServingStatus(name, state)
	}
}

// shutdown says NOT_SERVING for good, and then ends the open watches, which would hold their connections open.
func (h *healthService) shutdown() {
	h.Server.Shutdown()
	h.end()
}

// Watch streams changes until the client goes or the frontend drains. The last thing that a watcher of a draining frontend
// is told is that it does not serve.
func (h *healthService) Watch(in *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	w := &watchStream{ServerStreamingServer: stream, ctx: ctx, cancel: cancel}
	defer context.AfterFunc(h.ended, w.end)()
	return h.Server.Watch(in, w)
}

// watchStream ends a watch once it has to end and the watcher does not believe that the frontend serves.
type watchStream struct {
	grpc.ServerStreamingServer[healthpb.HealthCheckResponse]
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	told  healthpb.HealthCheckResponse_ServingStatus
	ended bool
}

func (w *watchStream) Context() context.Context { return w.ctx }

func (w *watchStream) Send(r *healthpb.HealthCheckResponse) error {
	w.mu.Lock()
	w.told = r.GetStatus() // before the watcher can act on it; ending the watch meanwhile does not take back what is being sent
	w.mu.Unlock()
	err := w.ServerStreamingServer.Send(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settleLocked()
	return err
}

func (w *watchStream) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.settleLocked()
}

func (w *watchStream) settleLocked() {
	if w.ended && w.told != healthpb.HealthCheckResponse_SERVING {
		w.cancel()
	}
}
