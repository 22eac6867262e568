"""A frontend's ways from decoded requests to scores through the ring, called by the worker threads of a gRPC server."""

import select
import threading
import time
from collections import deque

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.batching import Call, Inputs, Queue
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Lookup
from rankd_bench_py.ring import MAX_WAIT, OK, FrontendEnd, Reservation


class _Ring:
    """The ring, a lock around it, and a thread that hands back what comes from the owner."""

    def __init__(self, end: FrontendEnd, spin_seconds: float) -> None:
        self._end = end
        self._spin_ns = int(spin_seconds * 1e9)
        self._room = threading.Condition()  # guards what follows and the end, but not its rows
        self._waiting = 0
        self._entries: deque[list[Call]] = deque()
        threading.Thread(target=self._hand_back, daemon=True).start()

    def reserve(self, rows: int) -> tuple[Reservation, NDArray[np.float32]]:
        """Waits for room; the rows to write."""
        end = self._end
        with self._room:
            while (reservation := end.reserve(rows)) is None:
                self._waiting += 1
                self._room.wait()
                self._waiting -= 1
        return reservation, end.rows[reservation.first : reservation.first + rows]

    def publish(self, reservation: Reservation, calls: list[Call], rows: int) -> None:
        """Hands the rows of some calls over; each call gets its scores later."""
        with self._room:
            self._entries.append(calls)
            self._end.publish(reservation, rows)

    def _hand_back(self) -> None:
        end = self._end
        while True:
            with self._room:
                while (done := end.take()) is not None:
                    raw = done.scores.tobytes() if done.status == OK else None
                    Call.deliver(self._entries.popleft(), raw)
                    end.free(done.reservation)
                    if self._waiting:
                        self._room.notify_all()
            self._wait()

    def _wait(self) -> None:
        """Returns when something may have come back: spins while entries are away, if allowed, then sleeps."""
        end = self._end
        if self._spin_ns and end.in_flight:
            end.set_asleep(False)
            until = time.monotonic_ns() + self._spin_ns
            while time.monotonic_ns() < until:
                if end.came_back():
                    end.set_asleep(True)
                    return
                time.sleep(0)  # lets the worker threads run Python
            end.set_asleep(True)
        if not end.came_back():
            select.select([end.bell], [], [], MAX_WAIT)
        end.clear_bell()


class DirectRingBackend:
    """Every worker thread looks up its own request, straight into the ring's rows."""

    def __init__(self, bundle: Bundle, table: NDArray[np.float32], end: FrontendEnd, spin_seconds: float) -> None:
        """Threads get lookups of their own when they first call."""
        self._bundle = bundle
        self._table = table
        self._ring = _Ring(end, spin_seconds)
        self._local = threading.local()

    def score(self, call: Call) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""
        lookup: Lookup | None = getattr(self._local, "lookup", None)
        if lookup is None:
            lookup = self._local.lookup = Lookup(self._bundle, self._table)
            self._local.inputs = Inputs(self._bundle, lookup)
        block = self._local.inputs.checked_one(call)
        reservation, rows = self._ring.reserve(block.rows)
        lookup.pool(block, rows)
        self._ring.publish(reservation, [call], block.rows)
        return call.wait()


class BatchRingBackend:
    """One thread collects the requests of all workers and looks them up together, straight into the ring's rows."""

    def __init__(self, bundle: Bundle, table: NDArray[np.float32], end: FrontendEnd, spin_seconds: float) -> None:
        """Starts the thread."""
        self._queue = Queue(bundle.max_batch)
        self._lookup = Lookup(bundle, table)
        self._inputs = Inputs(bundle, self._lookup)
        self._ring = _Ring(end, spin_seconds)
        threading.Thread(target=self._collect, daemon=True).start()

    def score(self, call: Call) -> bytes:
        """The float32 scores of a request. Raises Refusal or DeviceError."""
        self._queue.put(call)
        return call.wait()

    def _collect(self) -> None:
        while True:
            calls, blocks = self._inputs.checked(self._queue.next_batch())
            if not calls:
                continue
            count = sum(b.rows for b in blocks)
            reservation, rows = self._ring.reserve(count)
            self._lookup.pool_all(blocks, rows)
            self._ring.publish(reservation, calls, count)
