"""Lookup and device in one process: one request a launch, or batched. Called by the worker threads of a gRPC server."""

import queue
import sys
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.batching import Call, DeviceError, Inputs, Queue
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.device import DEPTH, Device, Launch, Part
from rankd_bench_py.hugemem import Memory
from rankd_bench_py.lookup import Lookup


def _row_buffer(bundle: Bundle) -> NDArray[np.float32]:
    """Rows for the largest batch. Pages that are never written cost nothing."""
    size = bundle.max_batch * bundle.row_floats
    rows: NDArray[np.float32] = Memory(4 * size).array(np.float32, 0, size)
    return rows.reshape(bundle.max_batch, bundle.row_floats)


@dataclass(slots=True, frozen=True)
class _Worker:
    lookup: Lookup
    inputs: Inputs
    rows: NDArray[np.float32]


class DirectBackend:
    """Serves each request by itself, on the thread that calls."""

    def __init__(self, bundle: Bundle, table: NDArray[np.float32], device: Device) -> None:
        """Threads get lookups and buffers of their own when they first call."""
        self._bundle = bundle
        self._table = table
        self._device = device
        self._places = threading.Semaphore(DEPTH)
        self._local = threading.local()

    def score(self, call: Call) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""
        worker = self._worker()
        block = worker.inputs.checked_one(call)
        worker.lookup.pool(block, worker.rows[: block.rows])
        with self._places:
            try:
                return self._device.launch([Part(worker.rows, 0, block.rows)]).result().tobytes()
            except RuntimeError as error:
                raise DeviceError(f"run batch: {error}") from error

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            lookup = Lookup(self._bundle, self._table)
            worker = self._local.worker = _Worker(lookup, Inputs(self._bundle, lookup), _row_buffer(self._bundle))
        return worker


class BatchBackend:
    """Collects the requests of all workers, then looks them up and runs them together.

    One thread collects, looks up and launches, another waits for the device, so that the next batch is looked up while
    the device works.
    """

    def __init__(self, bundle: Bundle, table: NDArray[np.float32], device: Device) -> None:
        """Starts the threads."""
        self._device = device
        self._queue = Queue(bundle.max_batch)
        self._lookup = Lookup(bundle, table)
        self._inputs = Inputs(bundle, self._lookup)
        self._places = threading.Semaphore(DEPTH)
        # One is written while those of DEPTH launches are in use.
        self._buffers = [_row_buffer(bundle) for _ in range(DEPTH + 1)]
        self._running: queue.SimpleQueue[tuple[list[Call], Launch]] = queue.SimpleQueue()
        for target in (self._collect, self._complete):
            threading.Thread(target=target, daemon=True).start()

    def score(self, call: Call) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""
        self._queue.put(call)
        return call.wait()

    def _collect(self) -> None:
        turn = 0
        while True:
            calls, blocks = self._inputs.checked(self._queue.next_batch())
            if not calls:
                continue
            rows = self._buffers[turn]
            turn = (turn + 1) % len(self._buffers)
            count = self._lookup.pool_all(blocks, rows)
            self._places.acquire()
            try:
                self._running.put((calls, self._device.launch([Part(rows, 0, count)])))
            except RuntimeError as error:
                print(f"launch batch: {error}", file=sys.stderr, flush=True)
                self._places.release()
                Call.deliver(calls, None)

    def _complete(self) -> None:
        while True:
            calls, launch = self._running.get()
            raw = None
            try:
                raw = launch.result().tobytes()
            except RuntimeError as error:
                print(f"run batch: {error}", file=sys.stderr, flush=True)
            self._places.release()
            Call.deliver(calls, raw)
