"""A frontend's way from decoded requests to scores through the ring. All of it runs on the event loop's thread."""

import asyncio
from collections import deque
from dataclasses import dataclass

from rankd_bench_py.batching import MAX_DELAY, Inputs
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Lookup
from rankd_bench_py.ring import MAX_WAIT, OK, FrontendEnd
from rankd_bench_py.wire import Examples, Refusal


class DeviceError(Exception):
    """The device owner could not run the batch; the client gets INTERNAL."""


@dataclass(slots=True, frozen=True)
class _Item:
    examples: Examples
    scores: "asyncio.Future[bytes]"


class RingBackend:
    """Looks requests up straight into the ring's rows, one by one or batched.

    One thread does everything, by measurement: with a lookup thread beside the loop's, each of NumPy's short calls
    gives up the interpreter and may wait a whole switch interval for it.
    """

    def __init__(self, bundle: Bundle, lookup: Lookup, ring: FrontendEnd, *, batch: bool, spin_seconds: float) -> None:
        """Must be made on the loop. ``batch``: collect requests for MAX_DELAY or until the largest batch is full."""
        self._loop = asyncio.get_running_loop()
        self._lookup = lookup
        self._inputs = Inputs(bundle, lookup)
        self._ring = ring
        self._max = bundle.max_batch
        self._batch = batch
        self._spin = spin_seconds
        self._spin_end = 0.0
        self._spinning = False
        self._queue: deque[_Item] = deque()
        self._queued_rows = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = False  # what is queued wants to leave
        self._entries: deque[list[_Item]] = deque()  # with the owner
        self._loop.add_reader(ring.bell, self._on_bell)
        self._loop.call_later(MAX_WAIT, self._look)

    def submit(self, examples: Examples) -> "asyncio.Future[bytes]":
        """The float32 scores of a request, as bytes. The future raises Refusal or DeviceError."""
        item = _Item(examples, self._loop.create_future())
        self._queue.append(item)
        self._queued_rows += examples.rows
        if not self._batch or self._queued_rows >= self._max:
            self._due = True
            self._flush()
        elif self._timer is None and not self._due:
            self._timer = self._loop.call_later(MAX_DELAY, self._on_timer)
        return item.scores

    def _on_timer(self) -> None:
        self._timer = None
        self._due = True
        self._flush()

    def _flush(self) -> None:
        """Sends what is queued, as far as the ring has room; the rest leaves when rows come back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        queue = self._queue
        while queue:
            rows = queue[0].examples.rows
            count = 1
            if self._batch:
                while count < len(queue) and rows + queue[count].examples.rows <= self._max:
                    rows += queue[count].examples.rows
                    count += 1
            first = self._ring.reserve(rows)
            if first is None:
                return
            self._queued_rows -= rows
            self._send([queue.popleft() for _ in range(count)], first)
        self._due = False

    def _send(self, items: list[_Item], first: int) -> None:
        good, ids, dense = self._inputs.checked(items, _refuse)
        if not good:
            self._ring.cancel()
            return
        self._lookup.pool(ids, dense, self._ring.rows[first : first + len(ids)])
        self._ring.publish(first, len(ids))
        self._entries.append(good)
        if self._spin:
            self._start_spinning()

    def _on_bell(self) -> None:
        self._ring.clear_bell()
        self._deliver()

    def _look(self) -> None:
        """Bounds the wait for a ring of the bell that got lost."""
        self._deliver()
        self._loop.call_later(MAX_WAIT, self._look)

    def _deliver(self) -> None:
        while (done := self._ring.take()) is not None:
            items = self._entries.popleft()
            if done.status != OK:
                for item in items:
                    if not item.scores.done():
                        item.scores.set_exception(DeviceError("run batch: the device failed"))
                continue
            raw, at = done.scores.tobytes(), 0
            for item in items:
                size = 4 * item.examples.rows
                if not item.scores.done():  # the call may have been cancelled
                    item.scores.set_result(raw[at : at + size])
                at += size
        if self._due:
            self._flush()

    def _start_spinning(self) -> None:
        self._spin_end = self._loop.time() + self._spin
        if not self._spinning:
            self._spinning = True
            self._ring.set_asleep(False)
            self._loop.call_soon(self._spin_once)

    def _spin_once(self) -> None:
        """Looks into the ring each time around the loop, for a while after the last entry left."""
        self._deliver()
        if self._ring.in_flight and self._loop.time() < self._spin_end:
            self._loop.call_soon(self._spin_once)
            return
        self._spinning = False
        self._ring.set_asleep(True)
        self._deliver()


def _refuse(item: _Item, refusal: Refusal) -> None:
    if not item.scores.done():
        item.scores.set_exception(refusal)
