"""The server through Triton's client, unchanged: KServe v2 (Open Inference Protocol)."""

import queue
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as kserve
from server import Server, loosest
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

pytestmark = pytest.mark.server

BOUND = 1e-5


@pytest.fixture
def client(server: Server) -> Iterator[kserve.InferenceServerClient]:
    with kserve.InferenceServerClient(server.target) as client:
        yield client


def tensor(name: str, array: Any) -> kserve.InferInput:
    made = kserve.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


def infer(client: kserve.InferenceServerClient, server: Server, request: dict[str, Any], **options: Any) -> Any:
    inputs = [tensor(name, array) for name, array in request.items()]
    return client.infer(server.model, inputs, client_timeout=30, **options)


def assert_golden(server: Server, result: Any, expected: dict[str, Any]) -> None:
    for name, scores in expected.items():
        got = result.as_numpy(name)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, scores, rtol=0, atol=loosest(server, BOUND))


def test_server_is_live_and_ready(server: Server, client: kserve.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(server.model)
    assert client.is_model_ready(server.model, server.bundle.manifest.version)
    assert client.get_server_metadata().name == "rankd"


def test_metadata_describes_the_model(server: Server, client: kserve.InferenceServerClient) -> None:
    manifest = server.bundle.manifest
    metadata = client.get_model_metadata(server.model)
    assert metadata.name == manifest.name
    assert list(metadata.versions) == [manifest.version]
    inputs = {i.name: (i.datatype, list(i.shape)) for i in metadata.inputs}
    for table in manifest.tables:
        if table.hotness:
            assert inputs.pop(table.name) == ("INT64", [-1, table.hotness])
        else:
            assert inputs.pop(f"{table.name}.values") == ("INT64", [-1])
            assert inputs.pop(f"{table.name}.lengths") == ("INT32", [-1])
    assert inputs == {d.name: ("FP32", [-1, d.width]) for d in manifest.dense}
    outputs = {o.name: (o.datatype, list(o.shape)) for o in metadata.outputs}
    assert outputs == {o.name: ("FP32", [-1, o.width] if o.width else [-1]) for o in manifest.outputs}


def test_golden_requests_get_their_scores(server: Server, client: kserve.InferenceServerClient) -> None:
    request, expected = server.bundle.golden()
    result = infer(client, server, request, request_id="r-1")
    assert_golden(server, result, expected)
    response = result.get_response()
    assert (response.model_name, response.id) == (server.model, "r-1")
    assert response.model_version == server.bundle.manifest.version


def test_int32_ids_get_the_same_scores(server: Server, client: kserve.InferenceServerClient) -> None:
    request, expected = server.bundle.golden()
    narrow = {n: a.astype(np.int32) if a.dtype == np.int64 else a for n, a in request.items()}
    assert_golden(server, infer(client, server, narrow), expected)


def test_outputs_can_be_selected(server: Server, client: kserve.InferenceServerClient) -> None:
    request, expected = server.bundle.golden()
    last = server.bundle.manifest.outputs[-1].name
    result = infer(client, server, request, outputs=[kserve.InferRequestedOutput(last)])
    assert [o.name for o in result.get_response().outputs] == [last]
    assert_golden(server, result, {last: expected[last]})


def test_many_calls_at_once_keep_their_answers(server: Server, client: kserve.InferenceServerClient) -> None:
    request, expected = server.bundle.golden()
    inputs = [tensor(name, array) for name, array in request.items()]
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for _ in range(32):
        client.async_infer(server.model, inputs, lambda result, error: answers.put((result, error)), client_timeout=30)
    for _ in range(32):
        result, error = answers.get(timeout=60)
        assert error is None
        assert_golden(server, result, expected)


def raw(server: Server, request: dict[str, Any]) -> service_pb2.ModelInferRequest:
    """A request as it goes over the wire, to be broken by a test."""
    message = service_pb2.ModelInferRequest(model_name=server.model)
    for name, array in request.items():
        message.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def refused(client: kserve.InferenceServerClient, message: service_pb2.ModelInferRequest) -> str:
    """Sends a message past the client's own checks and returns what the server says against it."""
    with pytest.raises(grpc.RpcError) as caught:
        client._client_stub.ModelInfer(message, timeout=30)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, caught.value.details()
    return str(caught.value.details())


def test_malformed_requests_are_refused_by_name(server: Server, client: kserve.InferenceServerClient) -> None:
    request, expected = server.bundle.golden()
    dense = server.bundle.manifest.dense[0].name

    def broken() -> tuple[service_pb2.ModelInferRequest, int]:
        message = raw(server, request)
        return message, [i.name for i in message.inputs].index(dense)

    message, _ = broken()
    del message.raw_input_contents[-1]
    assert str(len(message.inputs)) in refused(client, message)

    message, at = broken()
    message.raw_input_contents[at] = message.raw_input_contents[at][:-1]
    assert dense in refused(client, message)

    message, at = broken()
    message.inputs[at].shape[0] = -1
    assert dense in refused(client, message)

    message, at = broken()
    message.inputs[at].shape[0] = 1 << 62
    assert dense in refused(client, message)

    message, at = broken()
    message.inputs[at].datatype = "fp32"
    assert "fp32" in refused(client, message)

    message, at = broken()
    message.inputs[at].name = "stranger"
    assert "stranger" in refused(client, message)

    message, at = broken()
    message.inputs.add().CopyFrom(message.inputs[at])
    message.raw_input_contents.append(message.raw_input_contents[at])
    assert dense in refused(client, message)

    message, at = broken()
    message.inputs[at].contents.fp32_contents.append(1.0)
    refused(client, message)

    assert_golden(server, infer(client, server, request), expected)


def test_unknown_models_and_versions_are_not_found(server: Server, client: kserve.InferenceServerClient) -> None:
    for name, version in (("nobody", ""), (server.model, "999")):
        with pytest.raises(kserve.InferenceServerException, match="NOT_FOUND"):
            client.get_model_metadata(name, version)
        with pytest.raises(kserve.InferenceServerException, match="NOT_FOUND"):
            client.is_model_ready(name, version)


def test_ids_outside_a_table_are_refused(server: Server, client: kserve.InferenceServerClient) -> None:
    request, _ = server.bundle.golden()
    table = next(t for t in server.bundle.manifest.tables if t.hotness and t.id_policy == "reject")
    ids = request[table.name].copy()
    ids[1, 0] = table.rows
    with pytest.raises(kserve.InferenceServerException, match=f"INVALID_ARGUMENT.*{table.name}.*{table.rows}"):
        infer(client, server, {**request, table.name: ids})
