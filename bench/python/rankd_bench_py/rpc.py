"""The gRPC server: worker threads over the generated service, health, and an orderly end."""

import gc
import time
from collections.abc import Callable
from concurrent import futures
from typing import Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from rankd_bench_py import process
from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py._generated import prediction_pb2_grpc as pb_grpc
from rankd_bench_py.batching import Call, DeviceError
from rankd_bench_py.wire import Refusal, Wire

SERVICE = "rankd.v1.PredictionService"
MAX_MESSAGE = 64 << 20
LAME_DUCK = 0.5  # seconds between "not serving" and the end of the listener: what was sent before is still accepted
GRACE = 30.0  # seconds for calls in flight when the server is told to stop


class Backend(Protocol):
    """What gives scores."""

    def score(self, call: Call) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""


class _Servicer(pb_grpc.PredictionServiceServicer):
    def __init__(self, wire: Wire, backend: Backend) -> None:
        self._wire = wire
        self._backend = backend

    def Predict(self, request: pb.PredictRequest, context: grpc.ServicerContext) -> pb.PredictResponse | None:
        try:
            examples = self._wire.decode(request)
            return self._wire.encode(request, examples.rows, self._backend.score(Call(examples)))
        except Refusal as refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        except DeviceError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
        return None  # not reached: abort raises


def serve(
    listen: str, wire: Wire, backend: Backend, ready: Callable[[int], None], *, threads: int, reuse_port: bool
) -> None:
    """Serves until SIGTERM, then ends what is in flight. ``ready`` gets the port. Call process.block_stop before."""
    options = [("grpc.so_reuseport", int(reuse_port)), ("grpc.max_receive_message_length", MAX_MESSAGE)]
    server = grpc.server(futures.ThreadPoolExecutor(threads), options=options)
    pb_grpc.add_PredictionServiceServicer_to_server(_Servicer(wire, backend), server)
    servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", SERVICE):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    port = server.add_insecure_port(listen)
    # What was made so far lives until the end: leave it out of every later collection.
    gc.collect()
    gc.freeze()
    server.start()
    ready(port)
    process.await_stop()
    servicer.enter_graceful_shutdown()
    time.sleep(LAME_DUCK)
    server.stop(GRACE).wait()
