"""Served scores against jax.jit and float64, through the client of this package."""

from collections.abc import Iterator
from typing import Any

import grpc
import jax
import models
import numpy as np
import pytest
from server import Server, loosest

from rankd_client import Client, RankdError
from rankd_export import dcnv2
from rankd_export.examples import dlrm_dcnv2

pytestmark = pytest.mark.server

# Of the same program at the same batch size, on another build of XLA.
JIT = 1e-6
# Sums of 8-bit rows round in other places: the scale first, the biases apart.
JIT_NARROW = 3e-6
# Of float32 against float64, and of one batch size against another: XLA blocks the sums of each size differently.
FLOAT64 = 1e-5


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.target) as client:
        yield client


def is_dcnv2(server: Server) -> bool:
    return any(i.weight == "cross.0.v" for i in server.bundle.manifest.program.inputs)


def take(request: dict[str, Any], server: Server, rows: slice) -> dict[str, Any]:
    """The same request with only some of its rows."""
    part: dict[str, Any] = {}
    for name, tensor in request.items():
        table = name.split(".")[0]
        if name == table or name.endswith(".lengths"):
            part[name] = tensor[rows]
            continue
        ends = np.cumsum(request[f"{table}.lengths"])
        starts = ends - request[f"{table}.lengths"]
        keep = range(len(ends))[rows]
        part[name] = np.concatenate([tensor[:0], *(tensor[starts[i] : ends[i]] for i in keep)])
    return part


def assert_close(got: Any, want: Any, bound: float) -> None:
    assert set(got) == set(want)
    for name, scores in want.items():
        assert got[name].dtype == np.float32
        np.testing.assert_allclose(got[name], scores, rtol=0, atol=bound)


def test_golden_requests_get_their_scores(server: Server, client: Client) -> None:
    request, expected = server.bundle.golden()
    assert_close(client.predict(server.model, request).outputs, expected, loosest(server, FLOAT64))


def all_float32(server: Server) -> bool:
    return all(t.row_dtype == "float32" for t in server.bundle.manifest.tables)


def jit_scores(server: Server, request: dict[str, Any], batch: int) -> dict[str, Any]:
    """The scores of jax.jit in batches of so many rows, the last one padded."""
    if is_dcnv2(server):
        fn, (params, *inputs) = dlrm_dcnv2.score, dcnv2.arguments(server.bundle, request)
    else:
        pooled = {n: a.astype(np.float32) for n, a in server.bundle.pooled(request).items()}
        fn, params, inputs = models.score, models.params(), [server.bundle.dense(request), pooled]
    jitted = jax.jit(fn)
    rows = len(jax.tree.leaves(inputs)[0])
    parts: list[dict[str, Any]] = []
    for start in range(0, rows, batch):
        cut = jax.tree.map(lambda a: np.resize(a[start : start + batch], (batch, *a.shape[1:])), inputs)  # noqa: B023
        result = jitted(params, *cut)
        if not isinstance(result, dict):
            result = {server.bundle.manifest.outputs[0].name: result}
        parts.append({n: np.asarray(a)[: rows - start] for n, a in result.items()})
    return {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}


def test_scores_are_those_of_jax_jit(server: Server, client: Client) -> None:
    """Which bucket a row went through is the server's choice: each row must be that of jax.jit at one of them."""
    if not is_dcnv2(server) and server.model != models.NAME:
        pytest.skip("a foreign bundle: its function is not known here")
    request, _ = server.bundle.golden()
    got = client.predict(server.model, request).outputs
    at_buckets = [jit_scores(server, request, batch) for batch in server.bundle.manifest.buckets]
    for name, scores in got.items():
        distance = np.min([np.abs(scores - want[name]) for want in at_buckets], axis=0)
        bound = loosest(server, JIT if all_float32(server) else JIT_NARROW)
        assert distance.max() <= bound, f"{name}: {distance.max()}"


def test_scores_are_those_of_an_independent_float64_pass(server: Server, client: Client) -> None:
    if not is_dcnv2(server):
        pytest.skip("the float64 pass is of DLRM-DCNv2")
    request, _ = server.bundle.golden()
    got = client.predict(server.model, request).outputs
    (name,) = got
    assert_close(got, {name: dcnv2.scores64(server.bundle, request)}, loosest(server, FLOAT64))


@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 10), slice(None, None, -1)])
def test_rows_score_the_same_in_any_company(server: Server, client: Client, rows: slice) -> None:
    request, _ = server.bundle.golden()
    whole = client.predict(server.model, request).outputs
    part = client.predict(server.model, take(request, server, rows)).outputs
    assert_close(part, {n: s[rows] for n, s in whole.items()}, FLOAT64)


def test_int32_ids_and_offsets_are_the_same_request(server: Server, client: Client) -> None:
    request, _ = server.bundle.golden()
    other: dict[str, Any] = {}
    for name, tensor in request.items():
        if name.endswith(".lengths"):
            other[name.replace(".lengths", ".offsets")] = np.concatenate([[0], np.cumsum(tensor)]).astype(np.int32)
        else:
            other[name] = tensor.astype(np.int32) if tensor.dtype == np.int64 else tensor
    want = client.predict(server.model, request).outputs
    assert_close(client.predict(server.model, other).outputs, want, FLOAT64)


def test_packed_ids_are_the_same_request(server: Server, client: Client) -> None:
    tables = server.bundle.manifest.tables
    if any(t.hotness == 0 for t in tables):
        pytest.skip("packed ids are for models whose tables are all of fixed hotness")
    request, _ = server.bundle.golden()
    packed: dict[str, Any] = {"ids": np.concatenate([request[t.name] for t in tables], axis=1)}
    packed.update(server.bundle.dense(request))
    want = client.predict(server.model, request).outputs
    assert_close(client.predict(server.model, packed).outputs, want, FLOAT64)


def test_one_row_serves_all_rows_of_the_others(server: Server, client: Client) -> None:
    request, _ = server.bundle.golden()
    dense = {d.name for d in server.bundle.manifest.dense}
    rows = next(len(a) for n, a in request.items() if n in dense)
    single = {n: a[:1] if n in dense else a for n, a in request.items()}
    repeated = {n: np.repeat(a[:1], rows, axis=0) if n in dense else a for n, a in request.items()}
    want = client.predict(server.model, repeated).outputs
    assert_close(client.predict(server.model, single).outputs, want, FLOAT64)


def test_float64_features_are_narrowed(server: Server, client: Client) -> None:
    request, _ = server.bundle.golden()
    dense = {d.name for d in server.bundle.manifest.dense}
    wide = {n: a.astype(np.float64) if n in dense else a for n, a in request.items()}
    want = client.predict(server.model, request).outputs
    assert_close(client.predict(server.model, wide).outputs, want, FLOAT64)


def test_outputs_can_be_selected_and_ids_come_back(server: Server, client: Client) -> None:
    request, _ = server.bundle.golden()
    last = server.bundle.manifest.outputs[-1].name
    version = server.bundle.manifest.version
    got = client.predict(server.model, request, outputs=[last], version=version, request_id="r-7")
    assert set(got.outputs) == {last}
    assert (got.request_id, got.model_version) == ("r-7", version)


def test_refusals_carry_their_reason_and_leave_the_server_serving(server: Server, client: Client) -> None:
    request, expected = server.bundle.golden()
    table = next(t for t in server.bundle.manifest.tables if t.hotness)
    dense = server.bundle.manifest.dense[0]
    missing = {n: a for n, a in request.items() if n != dense.name}
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    cases: list[tuple[dict[str, Any], str]] = [
        (missing, dense.name),
        ({**request, "stranger": np.zeros(3, np.float32)}, "stranger"),
        ({**request, dense.name: np.zeros((3, dense.width + 1), np.float32)}, dense.name),
        ({**request, table.name: request[table.name][:, :0]}, table.name),
        ({**request, table.name: request[table.name].astype(np.float32)}, table.name),
    ]
    if table.id_policy == "reject":
        outside = request[table.name].copy()
        outside[2, 0] = table.rows
        cases.append(({**request, table.name: outside}, str(table.rows)))
        cases.append(({**request, table.name: np.where(outside == table.rows, -1, outside)}, "-1"))
    for inputs, named in cases:
        with pytest.raises(RankdError, match=named) as caught:
            client.predict(server.model, inputs)
        assert caught.value.code == invalid
        assert caught.value.reason.startswith("invalid_")
    with pytest.raises(RankdError, match="nobody") as caught:
        client.predict("nobody", request)
    assert caught.value.code == grpc.StatusCode.NOT_FOUND
    assert_close(client.predict(server.model, request).outputs, expected, loosest(server, FLOAT64))
