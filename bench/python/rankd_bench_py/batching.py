"""Calls that wait for scores, the batcher's queue, and the arrays of one or several calls."""

import threading
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Block, Lookup
from rankd_bench_py.wire import Examples, Refusal

MAX_DELAY = 0.001  # seconds that the oldest call waits for company

_INT64 = np.dtype("<i8")


class DeviceError(Exception):
    """The device could not run the batch; the client gets INTERNAL."""


class Call:
    """A request that waits, on a thread of its own, for its scores."""

    __slots__ = ("_done", "_result", "examples")

    def __init__(self, examples: Examples) -> None:
        """Starts without scores."""
        self.examples = examples
        self._result: bytes | Exception = b""
        self._done = threading.Lock()  # held until there is a result: far cheaper than an Event
        self._done.acquire()

    def finish(self, result: bytes | Exception) -> None:
        """Ends the wait."""
        self._result = result
        self._done.release()

    def wait(self) -> bytes:
        """The float32 scores. Raises what finish was given instead."""
        self._done.acquire()
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    @staticmethod
    def deliver(calls: "Sequence[Call]", raw: bytes | None) -> None:
        """Ends the waits of a batch with its scores; None: the device failed."""
        at = 0
        for call in calls:
            size = 4 * call.examples.rows
            call.finish(DeviceError("run batch: the device failed") if raw is None else raw[at : at + size])
            at += size


class Queue:
    """Calls that wait for company: a batch leaves MAX_DELAY after its first call, or when it is full."""

    def __init__(self, max_rows: int) -> None:
        """Batches have at most ``max_rows`` rows."""
        self._max = max_rows
        self._changed = threading.Condition()
        self._calls: deque[Call] = deque()  # guarded by _changed, like what follows
        self._rows = 0
        self._oldest = 0.0

    def put(self, call: Call) -> None:
        """Adds a call."""
        with self._changed:
            before, self._rows = self._rows, self._rows + call.examples.rows
            if not self._calls:
                self._oldest = time.monotonic()
            self._calls.append(call)
            if before == 0 or before < self._max <= self._rows:
                self._changed.notify()

    def next_batch(self) -> list[Call]:
        """Waits for a batch."""
        with self._changed:
            while not self._calls:
                self._changed.wait()
            while self._rows < self._max and (left := self._oldest + MAX_DELAY - time.monotonic()) > 0:
                self._changed.wait(left)
            calls = [self._calls.popleft()]
            rows = calls[0].examples.rows
            while self._calls and rows + self._calls[0].examples.rows <= self._max:
                calls.append(self._calls.popleft())
                rows += calls[-1].examples.rows
            self._rows -= rows
            return calls  # what is left came while those waited: it leaves at the next chance, so _oldest stays


class Inputs:
    """Makes arrays of calls for one model, and refuses those with ids outside their table."""

    def __init__(self, bundle: Bundle, lookup: Lookup) -> None:
        """Checks ids with ``lookup``."""
        self._bundle = bundle
        self._lookup = lookup

    def blocks(self, calls: Sequence[Call]) -> list[Block]:
        """The inputs of all calls, in their order. Neighbours that are not blocks of their own become one."""
        if not any([c.examples.block is not None for c in calls]):
            return [self._joined(calls)]
        blocks: list[Block] = []
        plain: list[Call] = []
        for call in calls:
            if call.examples.block is None:
                plain.append(call)
                continue
            if plain:
                blocks.append(self._joined(plain))
                plain = []
            blocks.append(call.examples.block)
        if plain:
            blocks.append(self._joined(plain))
        return blocks

    def _joined(self, calls: Sequence[Call]) -> Block:
        width, dense_width = self._bundle.ids_per_row, self._bundle.dense_width
        first = calls[0].examples
        if len(calls) == 1:
            ids, dense = np.frombuffer(first.ids, first.ids_dtype), np.frombuffer(first.dense, np.float32)
        else:
            examples = [c.examples for c in calls]
            if all(e.ids_dtype == first.ids_dtype for e in examples):
                ids = np.frombuffer(b"".join([e.ids for e in examples]), first.ids_dtype)
            else:
                ids = np.concatenate([np.frombuffer(e.ids, e.ids_dtype) for e in examples], dtype=_INT64)
            dense = np.frombuffer(b"".join([e.dense for e in examples]), np.float32)
        ids = ids.reshape(-1, width)
        return Block(len(ids), ids, dense.reshape(-1, dense_width))

    def checked_one(self, call: Call) -> Block:
        """The block of one call. Raises Refusal."""
        (block,) = self.blocks([call])
        self._check(block)
        return block

    def checked(self, calls: list[Call]) -> tuple[list[Call], list[Block]]:
        """The calls whose ids are all good and their blocks; the others are refused. One check is enough if all are."""
        blocks = self.blocks(calls)
        if all([self._lookup.bad(b) is None for b in blocks]):
            return calls, blocks
        good = []
        for call in calls:
            try:
                self.checked_one(call)
                good.append(call)
            except Refusal as refusal:
                call.finish(refusal)
        return good, self.blocks(good) if good else []

    def _check(self, block: Block) -> None:
        bad = self._lookup.bad(block)
        if bad is not None:
            table, row, value = bad
            raise Refusal(f'input "{table.name}" row {row}: got id {value}, want 0 to {table.rows - 1}')
