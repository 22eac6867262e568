"""Starts rankd for the tests. What a command line looks like is known here and nowhere else in this folder.

Environment:

- ``RANKD_BIN``: the rankd binary (default: .build/bin/rankd of the repository).
- ``RANKD_PLUGIN_PATH``: the PJRT plugin for CPU, or a folder with it (default: .build/plugins/cpu of the repository).
- ``RANKD_REQUIRE_SERVER``: if set, a missing binary or plugin is a failure and not a skip.
- ``RANKD_TEST_TARGET`` and ``RANKD_TEST_BUNDLE``: a server that is running, host:port, and the bundle that it serves;
  nothing is started then.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import tritonclient.grpc as kserve

from rankd_export import Bundle

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = "pjrt_c_api_cpu_plugin.so"
START_SECONDS = 120.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Server:
    """A server that is ready, and what it serves."""

    target: str
    bundle: Bundle

    @property
    def model(self) -> str:
        return self.bundle.manifest.name


def external() -> Server | None:
    """The running server that the environment names."""
    target, bundle = os.environ.get("RANKD_TEST_TARGET"), os.environ.get("RANKD_TEST_BUNDLE")
    if not target:
        return None
    if not bundle:
        pytest.fail("RANKD_TEST_TARGET is set: set RANKD_TEST_BUNDLE to the directory of the bundle that it serves")
    return Server(target, Bundle.open(bundle))


def loosest(server: Server, bound: float) -> float:
    """The bound for scores, or that for sums that are rounded to 16 bits where the model has such.

    A sum between two values of bfloat16 may be rounded to either, by the order in which it was added up.
    """
    return 2e-4 if any(p.dtype != "float32" for p in server.bundle.manifest.packed) else bound


def create_demo(directory: Path, *flags: str) -> None:
    """Makes the server's own demo model."""
    run("model", "create-demo", str(directory), "--max-vocab=1000", "--max-batch=64", *flags)


def run(*arguments: str) -> None:
    """Runs rankd to its end."""
    command = [str(binary()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


@contextmanager
def serve(bundle: Path, scratch: Path) -> Iterator[Server]:
    """Serves a bundle until the block ends."""
    port = _free_port()
    command = [
        str(binary()), "serve", f"--model={bundle}", f"--listen=127.0.0.1:{port}", "--http=", "--frontends=2",
        "--executor=pjrt", "--platform=cpu", f"--plugin={plugin()}", f"--run-dir={scratch / 'run'}",
    ]  # fmt: skip
    log = scratch / "rankd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        _await_ready(process, port, log)
        yield Server(f"127.0.0.1:{port}", Bundle.open(bundle))
        if process.poll() is not None:
            pytest.fail(f"server ended while it was tested: {process.returncode}\n{_tail(log)}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert process.returncode == 0, f"exit {process.returncode} after SIGTERM\n{_tail(log)}"


def binary() -> Path:
    path = Path(os.environ.get("RANKD_BIN") or REPOSITORY / ".build" / "bin" / "rankd")
    if not path.is_file():
        _missing(f"no rankd binary at {path}: go build -o .build/bin/rankd ./cmd/rankd, or set RANKD_BIN")
    return path


def plugin() -> Path:
    named = [Path(p) for p in os.environ.get("RANKD_PLUGIN_PATH", "").split(":") if p]
    places = [q for p in named for q in (p, p / PLUGIN, p / "cpu" / PLUGIN)]
    places.append(REPOSITORY / ".build" / "plugins" / "cpu" / PLUGIN)
    for place in places:
        if place.is_file():
            return place
    _missing("no PJRT plugin for CPU: deploy/plugins/install_plugin.sh cpu, or set RANKD_PLUGIN_PATH")
    raise AssertionError


def _missing(message: str) -> None:
    if os.environ.get("RANKD_REQUIRE_SERVER"):
        pytest.fail(message)
    pytest.skip(message)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    # A channel that failed to connect waits longer and longer before it tries again: one for each question.
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"server ended before it was ready: exit {process.returncode}\n{_tail(log)}")
        with kserve.InferenceServerClient(f"127.0.0.1:{port}") as client:
            try:
                if client.is_server_ready(client_timeout=1):
                    return
            except kserve.InferenceServerException as error:
                if error.status() not in (str(grpc.StatusCode.UNAVAILABLE), str(grpc.StatusCode.DEADLINE_EXCEEDED)):
                    raise
        time.sleep(0.1)
    pytest.fail(f"server not ready after {START_SECONDS} s\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-40:])
