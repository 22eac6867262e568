package frontend

import (
	"context"

	"rankd/frontend/bind"
	"rankd/frontend/wire"
	"rankd/frontend/wire/kservepb"
	"rankd/internal/dtype"
	"rankd/model"
)

// kserve answers the Open Inference Protocol's questions about the server and its model. ModelInfer itself is a stream of
// the scorer.
type kserve struct {
	kservepb.UnimplementedGRPCInferenceServiceServer
	scorer
}

// ServerName and ServerVersion are what ServerMetadata reports.
const (
	ServerName    = "rankd"
	ServerVersion = "1"
)

// ServerLive is true whenever it can be asked.
func (k *kserve) ServerLive(context.Context, *kservepb.ServerLiveRequest) (*kservepb.ServerLiveResponse, error) {
	return &kservepb.ServerLiveResponse{Live: true}, nil
}

// ServerReady says whether scoring calls are taken.
func (k *kserve) ServerReady(context.Context, *kservepb.ServerReadyRequest) (*kservepb.ServerReadyResponse, error) {
	return &kservepb.ServerReadyResponse{Ready: k.core.Serving()}, nil
}

// ModelReady says the same of one model; NOT_FOUND for another model.
func (k *kserve) ModelReady(_ context.Context, in *kservepb.ModelReadyRequest) (*kservepb.ModelReadyResponse, error) {
	if err := k.core.checkModel([]byte(in.GetName()), []byte(in.GetVersion())); err != nil {
		return nil, err.Status().Err()
	}
	return &kservepb.ModelReadyResponse{Ready: k.core.Serving()}, nil
}

// ServerMetadata names the server.
func (k *kserve) ServerMetadata(context.Context, *kservepb.ServerMetadataRequest) (*kservepb.ServerMetadataResponse, error) {
	return &kservepb.ServerMetadataResponse{Name: ServerName, Version: ServerVersion}, nil
}

// ModelMetadata describes the inputs and outputs of the model; NOT_FOUND for another model.
func (k *kserve) ModelMetadata(_ context.Context, in *kservepb.ModelMetadataRequest) (*kservepb.ModelMetadataResponse, error) {
	if err := k.core.checkModel([]byte(in.GetName()), []byte(in.GetVersion())); err != nil {
		return nil, err.Status().Err()
	}
	return modelMetadata(k.core.model, k.core.binder, platformOf(k.core.cfg)), nil
}

// platformOf is what ModelMetadata calls the platform. A frontend knows of its device only what it was told.
func platformOf(cfg Config) string {
	if cfg.Simulated {
		return wire.PlatformSimulated
	}
	return wire.Platform
}

// modelMetadata lists each input in one of its forms; -1 stands for the batch, and for the number of ids of a ragged table.
func modelMetadata(m *model.Manifest, b *bind.Binder, platform string) *kservepb.ModelMetadataResponse {
	out := &kservepb.ModelMetadataResponse{Name: m.Name, Versions: []string{m.Version}, Platform: platform}
	for _, in := range b.Inputs() {
		out.Inputs = append(out.Inputs, &kservepb.ModelMetadataResponse_TensorMetadata{
			Name: in.Name, Datatype: wire.Datatype(in.DType), Shape: in.Shape,
		})
	}
	for _, o := range m.Outputs {
		shape := []int64{-1}
		if o.Width > 0 {
			shape = append(shape, int64(o.Width))
		}
		out.Outputs = append(out.Outputs, &kservepb.ModelMetadataResponse_TensorMetadata{
			Name: o.Name, Datatype: wire.Datatype(dtype.Float32), Shape: shape,
		})
	}
	return out
}
