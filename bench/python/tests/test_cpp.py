"""The C++ server as a process: scores, refusals, health, the end."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import pytest
from conftest import ROOT, by_table, draw, sim_scores
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from test_servers import Server, serve_command
from test_wire import one_row, packed, separate

from rankd_bench_py._generated import prediction_pb2_grpc as pb_grpc
from rankd_bench_py.bundle import Bundle


@pytest.fixture(scope="module")
def binary() -> Path:
    path = Path(os.environ.get("RANKD_CPP_BATCH", ROOT / ".build" / "bench" / "cpp" / "cpp_batch"))
    if not path.exists():
        text = f"{path} is missing: build it as bench/cpp/README.md says, or set RANKD_CPP_BATCH"
        if os.environ.get("RANKD_REQUIRE_CPP"):
            pytest.fail(text)
        pytest.skip(text)
    return path


def command(binary: Path, bundle: Bundle, *flags: str) -> list[str]:
    return [str(binary), "--model", str(bundle.directory), "--listen", "127.0.0.1:0", *flags]


@pytest.fixture(scope="module", params=["avx512", "avx2", "portable"])
def server(request: pytest.FixtureRequest, binary: Path, bundle: Bundle) -> Iterator[Server]:
    wanted = command(binary, bundle, "--kernel", request.param, "--num_threads", "3")
    if request.param != "portable" and f"{request.param}" not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this machine has no {request.param}")
    with serve_command(wanted) as running:
        yield running


def test_scores_as_the_simulated_accelerator(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    request, _ = bundle.golden()
    ids = np.concatenate([request[t.name] for t in bundle.tables], axis=1)
    want = sim_scores(bundle, tables, by_table(bundle, ids), request[bundle.dense])
    assert np.array_equal(server.predict(packed(bundle, ids, request[bundle.dense])), want)


def test_many_callers_get_their_own_scores(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    rng = np.random.default_rng(9)
    drawn = [draw(bundle, int(rng.choice([1, 2, 7, 31, 64])), seed=100 + k) for k in range(400)]
    with grpc.insecure_channel(server.address) as channel:
        predict = pb_grpc.PredictionServiceStub(channel).Predict

        def call(k: int) -> bool:
            ids, dense = drawn[k]
            want = sim_scores(bundle, tables, by_table(bundle, ids), dense)
            request = (separate if k % 3 == 0 else packed)(bundle, ids.astype(np.int64) if k % 5 == 0 else ids, dense)
            request.request_id = str(k)
            response = predict(request, timeout=30, wait_for_ready=True)
            (output,) = response.outputs.values()
            return response.request_id == str(k) and np.array_equal(np.frombuffer(output.data, np.float32), want)

        with futures.ThreadPoolExecutor(32) as pool:
            assert all(pool.map(call, range(len(drawn))))


def test_one_user_and_many_candidates(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    users = [f"cat_{t}" for t in range(13)]
    others = [f"cat_{t}" for t in range(13, 26)]
    for k, once in enumerate([[*users, "dense"], users, others, ["dense"], ["cat_1", "cat_19"], [*users, *others]]):
        for rows in (2, 5, 64):
            ids, dense = draw(bundle, rows, seed=10 * k + rows)
            parts = {n: np.repeat(p[:1], rows, 0) if n in once else p for n, p in by_table(bundle, ids).items()}
            features = np.repeat(dense[:1], rows, 0) if "dense" in once else dense
            wide = ids.astype(np.int64) if k % 2 else ids
            got = server.predict(one_row(separate(bundle, wide, dense), *once))
            assert np.array_equal(got, sim_scores(bundle, tables, parts, features))
    ids, dense = draw(bundle, 3, seed=1)
    got = server.predict(one_row(packed(bundle, ids, dense), "ids"))
    assert np.array_equal(got, sim_scores(bundle, tables, by_table(bundle, np.repeat(ids[:1], 3, 0)), dense))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [(0, -1, 'input "cat_0" row 1: got id -1, want 0 to 499'), (5, 500, 'input "cat_2" row 1: got id 500')],
)
def test_refuses_ids_outside_their_table(server: Server, bundle: Bundle, column: int, value: int, words: str) -> None:
    ids, dense = draw(bundle, 2, seed=1)
    ids[1, column] = value
    for dtype in (np.int32, np.int64):
        for form in (packed, separate):
            with pytest.raises(grpc.RpcError) as error:
                server.predict(form(bundle, ids.astype(dtype), dense))
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert words in error.value.details()


def test_refuses_shapes_that_do_not_fit(server: Server, bundle: Bundle) -> None:
    for shape in ([2, 213], [3, 214], [2, 214, 1], [-2, 214], []):
        request = packed(bundle, *draw(bundle, 2, seed=1))
        request.inputs["ids"].shape[:] = shape
        with pytest.raises(grpc.RpcError) as error:
            server.predict(request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    mixed = one_row(separate(bundle, *draw(bundle, 3, seed=1)), "cat_0", "dense")
    mixed.inputs["cat_5"].CopyFrom(separate(bundle, *draw(bundle, 2, seed=1)).inputs["cat_5"])
    with pytest.raises(grpc.RpcError, match=r'input "cat_5": got 8 bytes, want \[3, 1\]') as error:
        server.predict(mixed)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    for shape in ([65, 13], [0, 13], [-2, 13], [2, 12], [2**62, 13]):
        request = packed(bundle, *draw(bundle, 2, seed=1))
        request.inputs["dense"].shape[:] = shape
        with pytest.raises(grpc.RpcError) as error:
            server.predict(request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_is_healthy(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for service in ("", "rankd.v1.PredictionService"):
            response = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=service), timeout=9
            )
            assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_answers_calls_in_flight_before_it_ends(binary: Path, bundle: Bundle) -> None:
    request = packed(bundle, *draw(bundle, 64, seed=4))
    with serve_command(command(binary, bundle)) as server, grpc.insecure_channel(server.address) as channel:
        call = pb_grpc.PredictionServiceStub(channel).Predict
        call(request, wait_for_ready=True, timeout=30)
        calls = [call.future(request, timeout=30) for _ in range(64)]
        calls[0].result()
        server.process.send_signal(signal.SIGTERM)
        codes = {c.code() for c in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        assert server.process.wait(60) == 0


def test_says_what_is_wrong(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    for model in (tmp_path, tmp_path / "none"):
        result = subprocess.run([binary, "--model", model], capture_output=True, text=True, timeout=30)
        assert result.returncode == 1
        assert "manifest" in result.stderr
