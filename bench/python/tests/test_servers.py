"""Every arm as a process: scores of both devices, refusals, health, the end."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from conftest import by_table, draw, same_scores, sim_scores
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from test_wire import one_row, packed, separate

from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py._generated import prediction_pb2_grpc as pb_grpc
from rankd_bench_py.bundle import Bundle

ARMS = ["py", "py-batch", "py-mp", "py-mp-batch"]
START_LIMIT = 120.0


class Server:
    def __init__(self, process: "subprocess.Popen[str]", address: str, details: dict[str, object]) -> None:
        self.process = process
        self.address = address
        self.details = details

    def predict(self, request: pb.PredictRequest) -> NDArray[np.float32]:
        with grpc.insecure_channel(self.address) as channel:
            response = pb_grpc.PredictionServiceStub(channel).Predict(request, timeout=30, wait_for_ready=True)
        (output,) = response.outputs.values()
        return np.frombuffer(output.data, np.float32)


@contextmanager
def serve_command(command: list[str], status: int = 0) -> Iterator[Server]:
    """Runs a server until the end of the block; then it must end with ``status``."""
    root = str(Path(__file__).resolve().parents[1])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_LIMIT)
        assert ready, f"no line within {START_LIMIT} s"
        word, address, details = process.stdout.readline().split(" ", 2)
        assert word == "READY"
        yield Server(process, address, json.loads(details))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == status
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


@contextmanager
def serve(bundle: Bundle, arm: str, device: str, *flags: str, status: int = 0) -> Iterator[Server]:
    command = [sys.executable, "-m", "rankd_bench_py", "--arm", arm, "--model", str(bundle.directory)]
    with serve_command([*command, "--listen", "127.0.0.1:0", "--device", device, *flags], status) as running:
        yield running


CASES = [
    *((arm, "sim", ()) for arm in ARMS),
    *((arm, "jax", ()) for arm in ARMS),
    ("py-mp-batch", "sim", ("--shared_tables",)),
    ("py-mp", "sim", ("--spin", "on")),
    ("py-mp-batch", "sim", ("--spin", "on", "--num_processes", "3")),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: "-".join([c[0], c[1], *c[2]]))
def server(request: pytest.FixtureRequest, bundle: Bundle) -> Iterator[Server]:
    arm, device, flags = request.param
    with serve(bundle, arm, device, *flags) as running:
        running.details["kind"] = device
        yield running


def test_scores_golden_rows(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    request, expected = bundle.golden()
    ids = np.concatenate([request[t.name] for t in bundle.tables], axis=1)
    got = server.predict(packed(bundle, ids, request[bundle.dense]))
    if server.details["kind"] == "sim":
        assert same_scores(got, sim_scores(bundle, tables, by_table(bundle, ids), request[bundle.dense]))
    else:
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)


def test_many_callers_get_their_own_scores(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    if server.details["kind"] != "sim":
        pytest.skip("the simulated score shows every mistake; the real one is compared with golden rows")
    rng = np.random.default_rng(9)
    drawn = [draw(bundle, int(rng.choice([1, 2, 7, 31, 64])), seed=100 + k) for k in range(160)]
    bad = set(rng.choice(len(drawn), 8, replace=False).tolist())

    def call(k: int) -> bool:
        ids, dense = drawn[k]
        want = sim_scores(bundle, tables, by_table(bundle, ids), dense)
        form = separate if k % 3 == 0 else packed
        if k in bad:
            ids = ids.copy()
            ids[-1, 5] = 10**6
            with pytest.raises(grpc.RpcError) as error:
                server.predict(form(bundle, ids, dense))
            return bool(error.value.code() == grpc.StatusCode.INVALID_ARGUMENT)
        return same_scores(server.predict(form(bundle, ids.astype(np.int64) if k % 5 == 0 else ids, dense)), want)

    with futures.ThreadPoolExecutor(32) as pool:
        assert all(pool.map(call, range(len(drawn))))


def test_one_user_and_many_candidates(server: Server, bundle: Bundle, tables: list[NDArray[np.float32]]) -> None:
    """What comes with one row counts as if every row had it, beside calls of other kinds in the same batch."""
    users = [f"cat_{t}" for t in range(13)]
    ways = [[*users, "dense"], users, ["dense"], ["cat_1", "cat_19"], []]
    drawn = [draw(bundle, rows, seed=300 + k) for k, rows in enumerate((64, 1, 2, 40, 7, 64, 33, 5, 2, 64))]

    def request(k: int) -> pb.PredictRequest:
        return one_row(separate(bundle, *drawn[k]), *ways[k % len(ways)])

    def expected(k: int) -> NDArray[np.float32]:
        ids, dense = drawn[k]
        once = ways[k % len(ways)]
        parts = {n: np.repeat(p[:1], len(p), 0) if n in once else p for n, p in by_table(bundle, ids).items()}
        features = np.repeat(dense[:1], len(dense), 0) if "dense" in once else dense
        if server.details["kind"] == "sim":
            return sim_scores(bundle, tables, parts, features)
        return server.predict(packed(bundle, np.concatenate(list(parts.values()), axis=1), features))

    want = [expected(k) for k in range(len(drawn))]

    def call(k: int) -> bool:
        got = server.predict(request(k % len(drawn)))
        if server.details["kind"] == "sim":
            return same_scores(got, want[k % len(drawn)])
        return np.allclose(got, want[k % len(drawn)], rtol=0, atol=2e-5)

    with futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(8 * len(drawn))))


def test_refuses_by_status(server: Server, bundle: Bundle) -> None:
    request = packed(bundle, *draw(bundle, 2, seed=1))
    request.inputs["ids"].dtype = pb.DTYPE_FLOAT32
    with pytest.raises(grpc.RpcError) as error:
        server.predict(request)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "want int32 or int64" in error.value.details()


def test_is_healthy(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "rankd.v1.PredictionService"):
            response = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10, wait_for_ready=True)
            assert response.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("arm", ARMS)
def test_answers_calls_in_flight_before_it_ends(bundle: Bundle, arm: str) -> None:
    request = packed(bundle, *draw(bundle, 64, seed=4))
    with serve(bundle, arm, "sim") as server, grpc.insecure_channel(server.address) as channel:
        call = pb_grpc.PredictionServiceStub(channel).Predict
        call(request, wait_for_ready=True, timeout=30)
        calls = [call.future(request, timeout=30) for _ in range(32)]
        calls[0].result()
        server.process.send_signal(signal.SIGTERM)
        late = [c for c in calls if c.code() not in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)]
        assert not late, late[0]
        assert server.process.wait(60) == 0


@pytest.mark.parametrize("victim", [1, 2])
def test_ends_with_an_error_when_a_child_is_killed(bundle: Bundle, victim: int) -> None:
    with serve(bundle, "py-mp", "sim", status=1) as server:
        pids = server.details["pids"]
        assert isinstance(pids, list)
        os.kill(pids[victim], signal.SIGKILL)
        assert server.process.wait(30) == 1
        assert not [pid for pid in pids[1:] if Path(f"/proc/{pid}").exists()]


def test_leaves_nothing_in_shared_memory(bundle: Bundle) -> None:
    with serve(bundle, "py-mp-batch", "sim", "--shared_tables") as server:
        pids = server.details["pids"]
        assert isinstance(pids, list)
        links = [os.readlink(fd) for pid in pids[1:] for fd in Path(f"/proc/{pid}/fd").iterdir()]
        shared = [link for link in links if link.startswith("/dev/shm/")]
        # Files without a name go with their last user, however it ends.
        assert shared
        assert all(link.endswith("(deleted)") for link in shared)


@pytest.mark.parametrize("pin", ["on", "off"])
def test_keeps_frontends_on_one_processor_each(bundle: Bundle, pin: str) -> None:
    with serve(bundle, "py-mp", "sim", "--num_processes", "3", "--pin", pin) as server:
        pids = server.details["pids"]
        assert isinstance(pids, list)
        own = sorted(os.sched_getaffinity(0))
        want = [{own[i % len(own)]} if pin == "on" else set(own) for i in range(3)]
        for pid, cpus in zip(pids[2:], want, strict=True):
            assert all(os.sched_getaffinity(int(t.name)) == cpus for t in Path(f"/proc/{pid}/task").iterdir())
