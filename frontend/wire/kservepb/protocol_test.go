package kservepb

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// public is the Open Inference Protocol as its published clients have it compiled in: message.field=number kind.
const public = `
InferParameter.bool_param=1 bool
InferParameter.double_param=4 double
InferParameter.int64_param=2 int64
InferParameter.string_param=3 string
InferParameter.uint64_param=5 uint64
InferTensorContents.bool_contents=1 repeated bool
InferTensorContents.bytes_contents=8 repeated bytes
InferTensorContents.fp32_contents=6 repeated float
InferTensorContents.fp64_contents=7 repeated double
InferTensorContents.int64_contents=3 repeated int64
InferTensorContents.int_contents=2 repeated int32
InferTensorContents.uint64_contents=5 repeated uint64
InferTensorContents.uint_contents=4 repeated uint32
ModelInferRequest.id=3 string
ModelInferRequest.inputs=5 repeated InferInputTensor
ModelInferRequest.model_name=1 string
ModelInferRequest.model_version=2 string
ModelInferRequest.outputs=6 repeated InferRequestedOutputTensor
ModelInferRequest.parameters=4 repeated ParametersEntry
ModelInferRequest.raw_input_contents=7 repeated bytes
ModelInferRequest.InferInputTensor.contents=5 InferTensorContents
ModelInferRequest.InferInputTensor.datatype=2 string
ModelInferRequest.InferInputTensor.name=1 string
ModelInferRequest.InferInputTensor.parameters=4 repeated ParametersEntry
ModelInferRequest.InferInputTensor.shape=3 repeated int64
ModelInferRequest.InferRequestedOutputTensor.name=1 string
ModelInferRequest.InferRequestedOutputTensor.parameters=2 repeated ParametersEntry
ModelInferResponse.id=3 string
ModelInferResponse.model_name=1 string
ModelInferResponse.model_version=2 string
ModelInferResponse.outputs=5 repeated InferOutputTensor
ModelInferResponse.parameters=4 repeated ParametersEntry
ModelInferResponse.raw_output_contents=6 repeated bytes
ModelInferResponse.InferOutputTensor.contents=5 InferTensorContents
ModelInferResponse.InferOutputTensor.datatype=2 string
ModelInferResponse.InferOutputTensor.name=1 string
ModelInferResponse.InferOutputTensor.parameters=4 repeated ParametersEntry
ModelInferResponse.InferOutputTensor.shape=3 repeated int64
ModelMetadataRequest.name=1 string
ModelMetadataRequest.version=2 string
ModelMetadataResponse.inputs=4 repeated TensorMetadata
ModelMetadataResponse.name=1 string
ModelMetadataResponse.outputs=5 repeated TensorMetadata
ModelMetadataResponse.platform=3 string
ModelMetadataResponse.versions=2 repeated string
ModelMetadataResponse.TensorMetadata.datatype=2 string
ModelMetadataResponse.TensorMetadata.name=1 string
ModelMetadataResponse.TensorMetadata.shape=3 repeated int64
ModelReadyRequest.name=1 string
ModelReadyRequest.version=2 string
ModelReadyResponse.ready=1 bool
ServerLiveResponse.live=1 bool
ServerMetadataResponse.extensions=3 repeated string
ServerMetadataResponse.name=1 string
ServerMetadataResponse.version=2 string
ServerReadyResponse.ready=1 bool
`

func TestFieldsAreThoseOfThePublicProtocol(t *testing.T) {
	var got []string
	var list func(prefix string, messages protoreflect.MessageDescriptors)
	list = func(prefix string, messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			m := messages.Get(i)
			if m.IsMapEntry() {
				continue
			}
			name := prefix + string(m.Name()) + "."
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				kind := f.Kind().String()
				if f.Message() != nil {
					kind = string(f.Message().Name())
				}
				if f.Cardinality() == protoreflect.Repeated {
					kind = "repeated " + kind
				}
				got = append(got, fmt.Sprintf("%s%s=%d %s", name, f.Name(), f.Number(), kind))
			}
			list(name, m.Messages())
		}
	}
	list("", File_inference_grpc_service_proto.Messages())
	want := strings.Split(strings.TrimSpace(public), "\n")
	sort.Strings(got)
	sort.Strings(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("I1: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if name := GRPCInferenceService_ServiceDesc.ServiceName; name != "inference.GRPCInferenceService" {
		t.Errorf("I1: got service %s, want inference.GRPCInferenceService", name)
	}
}
