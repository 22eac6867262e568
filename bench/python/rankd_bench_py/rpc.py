"""The gRPC servers: one with worker threads, one on an event loop."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import Protocol

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py._generated import prediction_pb2_grpc as pb_grpc
from rankd_bench_py.ringbackend import DeviceError
from rankd_bench_py.wire import Examples, Refusal, Wire

SERVICE = "rankd.v1.PredictionService"
THREADS = 8
MAX_MESSAGE = 64 << 20
MAX_CALLS = 8192  # in one process; more are refused with RESOURCE_EXHAUSTED
LAME_DUCK = 0.2  # seconds between "not serving" and the end of the listener: what was sent before is still accepted
GRACE = 30.0  # seconds for calls in flight when the server is told to stop


class ThreadBackend(Protocol):
    """Scores on the thread that calls."""

    def score(self, examples: Examples) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""


class LoopBackend(Protocol):
    """Scores later."""

    def submit(self, examples: Examples) -> Awaitable[bytes]:
        """The float32 scores of a request. The awaitable raises Refusal or DeviceError."""


class _ThreadServicer(pb_grpc.PredictionServiceServicer):
    def __init__(self, wire: Wire, backend: ThreadBackend) -> None:
        self._wire = wire
        self._backend = backend

    def Predict(self, request: pb.PredictRequest, context: grpc.ServicerContext) -> pb.PredictResponse | None:
        try:
            examples = self._wire.decode(request)
            return self._wire.encode(request, examples.rows, self._backend.score(examples))
        except Refusal as refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        except DeviceError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
        return None  # not reached: abort raises


class _LoopServicer(pb_grpc.PredictionServiceServicer):
    def __init__(self, wire: Wire, backend: LoopBackend) -> None:
        self._wire = wire
        self._backend = backend

    async def Predict(self, request: pb.PredictRequest, context: grpc.aio.ServicerContext) -> pb.PredictResponse | None:
        try:
            examples = self._wire.decode(request)
            return self._wire.encode(request, examples.rows, await self._backend.submit(examples))
        except Refusal as refusal:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        except DeviceError as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        return None  # not reached: abort raises


def _options(reuse_port: bool) -> list[tuple[str, int]]:
    return [("grpc.so_reuseport", int(reuse_port)), ("grpc.max_receive_message_length", MAX_MESSAGE)]


def serve_threads(listen: str, wire: Wire, backend: ThreadBackend, ready: Callable[[int], None]) -> None:
    """Serves with THREADS worker threads until SIGTERM, then ends what is in flight. ``ready`` gets the port."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = grpc.server(
        futures.ThreadPoolExecutor(THREADS), options=_options(False), maximum_concurrent_rpcs=MAX_CALLS
    )
    pb_grpc.add_PredictionServiceServicer_to_server(_ThreadServicer(wire, backend), server)
    servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", SERVICE):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    port = server.add_insecure_port(listen)
    server.start()
    ready(port)
    stop.wait()
    servicer.enter_graceful_shutdown()
    time.sleep(LAME_DUCK)
    server.stop(GRACE).wait()


def serve_loop(
    listen: str, wire: Wire, make_backend: Callable[[], LoopBackend], ready: Callable[[int], None], *, reuse_port: bool
) -> None:
    """Serves on an event loop until SIGTERM, then ends what is in flight. ``ready`` gets the port."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        server = grpc.aio.server(options=_options(reuse_port), maximum_concurrent_rpcs=MAX_CALLS)
        pb_grpc.add_PredictionServiceServicer_to_server(_LoopServicer(wire, make_backend()), server)
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for name in ("", SERVICE):
            await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
        port = server.add_insecure_port(listen)
        await server.start()
        ready(port)
        await stop.wait()
        await servicer.enter_graceful_shutdown()
        await asyncio.sleep(LAME_DUCK)
        await server.stop(GRACE)

    uvloop.run(main())
