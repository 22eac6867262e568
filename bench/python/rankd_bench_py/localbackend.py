"""Lookup and device in one process: one request a call, or batched."""

import asyncio
import queue
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.batching import MAX_DELAY, Inputs
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.device import DEPTH, Device, Launch, Part
from rankd_bench_py.hugemem import Memory
from rankd_bench_py.lookup import Lookup
from rankd_bench_py.ringbackend import DeviceError
from rankd_bench_py.wire import Examples, Refusal


def _row_buffer(bundle: Bundle) -> NDArray[np.float32]:
    """Rows for the largest batch. Pages that are never written cost nothing."""
    size = bundle.max_batch * bundle.row_floats
    rows: NDArray[np.float32] = Memory(4 * size).array(np.float32, 0, size)
    return rows.reshape(bundle.max_batch, bundle.row_floats)


@dataclass(slots=True)
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

    def score(self, examples: Examples) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""
        worker = self._worker()
        refused: list[Refusal] = []
        good, ids, dense = worker.inputs.checked([_Call(examples)], lambda _, refusal: refused.append(refusal))
        if not good:
            raise refused[0]
        worker.lookup.pool(ids, dense, worker.rows[: len(ids)])
        with self._places:
            try:
                return self._device.launch([Part(worker.rows, 0, len(ids))]).result().tobytes()
            except RuntimeError as error:
                raise DeviceError(f"run batch: {error}") from error

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            lookup = Lookup(self._bundle, self._table)
            worker = self._local.worker = _Worker(lookup, Inputs(self._bundle, lookup), _row_buffer(self._bundle))
        return worker


@dataclass(slots=True, frozen=True)
class _Call:
    examples: Examples


@dataclass(slots=True, frozen=True)
class _Item:
    examples: Examples
    scores: "asyncio.Future[bytes]"


@dataclass(slots=True, frozen=True)
class _Running:
    items: list[_Item]
    launch: Launch | None  # None: it could not be started


class BatchBackend:
    """Collects requests for MAX_DELAY or until the largest batch is full, then looks them up and runs them together.

    One thread collects, looks up and launches, another waits for the device, so that the next batch is looked up while
    the device works and the event loop goes on answering.
    """

    SWITCH_INTERVAL = (
        0.0005  # seconds; at the default of 5 ms a lookup loses much of its time waiting for the interpreter
    )

    def __init__(self, bundle: Bundle, table: NDArray[np.float32], device: Device) -> None:
        """Must be made on the loop that gets the results."""
        sys.setswitchinterval(self.SWITCH_INTERVAL)
        self._loop = asyncio.get_running_loop()
        self._device = device
        self._max = bundle.max_batch
        self._lookup = Lookup(bundle, table)
        self._inputs = Inputs(bundle, self._lookup)
        self._places = threading.Semaphore(DEPTH)
        self._buffers = [_row_buffer(bundle) for _ in range(DEPTH + 1)]
        self._running: queue.SimpleQueue[_Running] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._queue: deque[_Item] = deque()  # guarded by _changed, like what follows
        self._queued_rows = 0
        self._oldest = 0.0
        for target in (self._collect, self._complete):
            threading.Thread(target=target, daemon=True).start()

    def submit(self, examples: Examples) -> "asyncio.Future[bytes]":
        """The float32 scores of a request, as bytes. The future raises Refusal or DeviceError."""
        item = _Item(examples, self._loop.create_future())
        with self._changed:
            if not self._queue:
                self._oldest = time.monotonic()
            self._queue.append(item)
            before, self._queued_rows = self._queued_rows, self._queued_rows + examples.rows
            if before == 0 or before < self._max <= self._queued_rows:
                self._changed.notify()
        return item.scores

    def _next_batch(self) -> list[_Item]:
        with self._changed:
            while not self._queue:
                self._changed.wait()
            while self._queued_rows < self._max and (left := self._oldest + MAX_DELAY - time.monotonic()) > 0:
                self._changed.wait(left)
            items = [self._queue.popleft()]
            rows = items[0].examples.rows
            while self._queue and rows + self._queue[0].examples.rows <= self._max:
                items.append(self._queue.popleft())
                rows += items[-1].examples.rows
            self._queued_rows -= rows
            return items  # what is left waits no longer than those did: _oldest stays

    def _collect(self) -> None:
        turn = 0
        while True:
            items, ids, dense = self._inputs.checked(self._next_batch(), self._refuse)
            if not items:
                continue
            rows = self._buffers[turn]
            turn = (turn + 1) % len(self._buffers)
            self._lookup.pool(ids, dense, rows[: len(ids)])
            self._places.acquire()
            try:
                self._running.put(_Running(items, self._device.launch([Part(rows, 0, len(ids))])))
            except RuntimeError as error:
                print(f"launch batch: {error}", flush=True)
                self._running.put(_Running(items, None))

    def _complete(self) -> None:
        while True:
            batch = self._running.get()
            raw = None
            try:
                raw = batch.launch.result().tobytes() if batch.launch else None
            except RuntimeError as error:
                print(f"run batch: {error}", flush=True)
            self._places.release()
            self._loop.call_soon_threadsafe(_deliver, batch.items, raw)

    def _refuse(self, item: _Item, refusal: Refusal) -> None:
        self._loop.call_soon_threadsafe(_fail, item, refusal)


def _fail(item: _Item, error: Exception) -> None:
    if not item.scores.done():
        item.scores.set_exception(error)


def _deliver(items: list[_Item], raw: bytes | None) -> None:
    at = 0
    for item in items:
        size = 4 * item.examples.rows
        if raw is None:
            _fail(item, DeviceError("run batch: the device failed"))
        elif not item.scores.done():  # the call may have been cancelled
            item.scores.set_result(raw[at : at + size])
        at += size
