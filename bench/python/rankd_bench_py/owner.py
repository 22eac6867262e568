"""The device owner: takes packed rows from the frontends' rings, runs the device, gives scores back.

Where entries are merged, a free place on the device takes everything that waits at that moment, up to the largest
batch, and never waits for more. Entries keep their order within a ring; rings take turns at the head of a batch.
"""

import contextlib
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.device import DEPTH, Device, Launch, Part
from rankd_bench_py.ring import MAX_WAIT, Entry, OwnerEnd


class _Batch:
    """A launch and the entries that it came from."""

    def __init__(self, entries: list[tuple[OwnerEnd, Entry]], launch: Launch) -> None:
        self.entries = entries
        self.launch = launch
        self.scores: NDArray[np.float32] | None = None
        self.ended = False


class Owner:
    """Runs until it is told to stop and the rings are empty."""

    def __init__(
        self, device: Device, rings: Sequence[OwnerEnd], bell: int, *, max_batch: int, merge: bool, spin_seconds: float
    ) -> None:
        """All frontends ring the eventfd ``bell``. ``spin_seconds`` is for a machine with a CPU to spare."""
        self._device = device
        self._rings = rings
        self._bell = bell
        self._max = max_batch
        self._merge = merge
        self._spin_ns = int(spin_seconds * 1e9)
        self._first = 0  # ring that is looked at first
        self._running: deque[_Batch] = deque()
        self._stop = False
        self._fetch: queue.SimpleQueue[_Batch] | None = None

    def stop(self) -> None:
        """Ends run when all that was handed over is done. A signal handler may call it."""
        self._stop = True
        os.eventfd_write(self._bell, 1)

    def run(self) -> None:
        """The loop."""
        while True:
            moved = False
            while len(self._running) < DEPTH and (entries := self._next_entries()):
                self._launch(entries)
                moved = True
            while self._running and self._has_ended(self._running[0]):
                self._finish(self._running.popleft())
                moved = True
            if moved:
                continue
            if self._stop and not self._running:
                return
            self._wait()

    def _next_entries(self) -> list[tuple[OwnerEnd, Entry]]:
        """What the next batch is made of: one entry, or all that wait and have room."""
        rings = self._rings
        count, first = len(rings), self._first
        entries: list[tuple[OwnerEnd, Entry]] = []
        rows = 0
        for i in range(count):
            ring = rings[(first + i) % count]
            while (entry := ring.peek()) is not None:
                if rows + entry.count > self._max:
                    self._first = (first + i) % count  # it is the head of the next batch
                    return entries
                ring.take()
                entries.append((ring, entry))
                rows += entry.count
                if not self._merge:
                    self._first = (first + i + 1) % count
                    return entries
        self._first = (first + 1) % count
        return entries

    def _launch(self, entries: list[tuple[OwnerEnd, Entry]]) -> None:
        batch = _Batch(entries, self._device.launch([Part(r.rows, e.first, e.count) for r, e in entries]))
        self._running.append(batch)
        if batch.launch.end_ns is None:
            if self._fetch is None:
                self._fetch = queue.SimpleQueue()
                threading.Thread(target=self._fetch_results, args=(self._fetch,), daemon=True).start()
            self._fetch.put(batch)

    def _fetch_results(self, batches: "queue.SimpleQueue[_Batch]") -> None:
        """Waits, on a thread of its own, for launches of which nobody knows when they end."""
        while True:
            batch = batches.get()
            try:
                batch.scores = batch.launch.result()
            except RuntimeError as error:  # what JAX raises for a device's errors
                print(f"run batch: {error}", flush=True)
            batch.ended = True
            os.eventfd_write(self._bell, 1)

    def _has_ended(self, batch: _Batch) -> bool:
        end = batch.launch.end_ns
        if end is None:
            return batch.ended
        if time.monotonic_ns() < end:
            return False
        batch.scores = batch.launch.result()
        return True

    def _finish(self, batch: _Batch) -> None:
        scores, at = batch.scores, 0
        touched: list[OwnerEnd] = []
        for ring, entry in batch.entries:
            ring.complete(None if scores is None else scores[at : at + entry.count], entry)
            at += entry.count
            if not touched or touched[-1] is not ring:
                touched.append(ring)
        for ring in touched:
            ring.ring()

    def _something(self) -> bool:
        """Whether there is something to do."""
        if self._running and self._has_ended(self._running[0]):
            return True
        return len(self._running) < DEPTH and any(r.pending() for r in self._rings)

    def _wait(self) -> None:
        """Returns when there may be something to do: spins where that is allowed, then sleeps."""
        if self._spin_ns:
            end = time.monotonic_ns() + self._spin_ns
            while time.monotonic_ns() < end:
                if self._something():
                    return
        room = len(self._running) < DEPTH  # else new entries change nothing, and nobody need ring for them
        if room:
            for ring in self._rings:
                ring.set_asleep(True)
        if not self._something():
            timeout = MAX_WAIT
            if self._running and (end_ns := self._running[0].launch.end_ns) is not None:
                timeout = min(timeout, max(0, end_ns - time.monotonic_ns()) * 1e-9)
            select.select([self._bell], [], [], timeout)
        if room:
            for ring in self._rings:
                ring.set_asleep(False)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
