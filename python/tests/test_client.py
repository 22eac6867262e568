"""The client against a gRPC server in this process: encoding, decoding, refusals."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import ml_dtypes
import numpy as np
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from rankd_client import Client, RankdError, tensors
from rankd_client._generated import prediction_pb2 as pb

Handler = Callable[[pb.PredictRequest, grpc.ServicerContext], pb.PredictResponse]


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], Client]]:
    server = grpc.server(ThreadPoolExecutor(1))
    clients: list[Client] = []

    def start(handler: Handler) -> Client:
        method = grpc.unary_unary_rpc_method_handler(
            handler,
            request_deserializer=pb.PredictRequest.FromString,
            response_serializer=pb.PredictResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("rankd.v1.PredictionService", {"Predict": method})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        clients.append(Client(f"127.0.0.1:{port}"))
        return clients[0]

    yield start
    for client in clients:
        client.close()
    server.stop(None).wait()


def test_a_request_carries_names_shapes_types_and_bytes(serve: Callable[[Handler], Client]) -> None:
    seen: list[pb.PredictRequest] = []

    def handler(request: pb.PredictRequest, context: grpc.ServicerContext) -> pb.PredictResponse:
        seen.append(request)
        scores = tensors.encode("score", np.array([0.25, 0.5], np.float32))
        return pb.PredictResponse(
            model_name="m", model_version="7", request_id=request.request_id, outputs={"score": scores}
        )

    inputs = {"t": np.array([[1, 2], [3, 4]], ">i4"), "dense": np.ones((2, 3), np.float32).T[:2, :]}
    got = serve(handler).predict("m", inputs, outputs=["score"], version="7", request_id="r1")
    (request,) = seen
    assert (request.model_name, request.model_version, list(request.output_filter)) == ("m", "7", ["score"])
    assert request.inputs["t"].dtype == pb.DTYPE_INT32
    assert list(request.inputs["t"].shape) == [2, 2]
    assert request.inputs["t"].data == np.array([1, 2, 3, 4], "<i4").tobytes()
    assert list(request.inputs["dense"].shape) == [2, 2]
    assert (got.model_version, got.request_id) == ("7", "r1")
    np.testing.assert_array_equal(got.outputs["score"], np.array([0.25, 0.5], np.float32))


def test_a_refusal_carries_code_reason_and_time_to_retry(serve: Callable[[Handler], Client]) -> None:
    def handler(request: pb.PredictRequest, context: grpc.ServicerContext) -> pb.PredictResponse:
        details = []
        for message in (
            error_details_pb2.ErrorInfo(reason="draining", domain="rankd"),
            error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=250_000_000)),
        ):
            packed = any_pb2.Any()
            packed.Pack(message)
            details.append(packed)
        code = grpc.StatusCode.UNAVAILABLE
        status = status_pb2.Status(code=code.value[0], message="going away", details=details)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(code, "going away")
        raise AssertionError

    with pytest.raises(RankdError, match=r"UNAVAILABLE \(draining\): going away") as caught:
        serve(handler).predict("m", {"t": np.zeros((1, 1), np.int64)})
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, "draining")
    assert caught.value.retry_after == 0.25


def test_a_server_that_is_not_there_is_a_refusal_without_reason() -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(RankdError, match="UNAVAILABLE") as caught:
        client.predict("m", {"t": np.zeros((1, 1), np.int64)}, timeout=5)
    assert (caught.value.reason, caught.value.retry_after) == ("", None)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"],
)
def test_every_type_survives(dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    back = tensors.decode(tensors.encode("x", array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_bfloat16_is_its_own_type() -> None:
    tensor = tensors.encode("x", np.array([1.5], ml_dtypes.bfloat16))
    assert (tensor.dtype, tensor.data) == (pb.DTYPE_BFLOAT16, b"\xc0\x3f")


@pytest.mark.parametrize("value", [["text"], [1 + 2j], [None]])
def test_other_types_are_refused_by_name(value: list[object]) -> None:
    with pytest.raises(TypeError, match=r'input "x": got .*, want one of bool, int8'):
        tensors.encode("x", np.array(value))
