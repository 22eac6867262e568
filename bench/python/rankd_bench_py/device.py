"""The devices: JAX, and a simulated accelerator with rankd's timeline and score."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.simscore import SimScore

DEPTH = 2  # launches in flight
CALL_NS = 350_000
ROW_NS = 1_500


@dataclass(slots=True, frozen=True)
class Part:
    """Rows ``first`` to ``first + count`` of packed rows ``array``. What follows them may be read as padding."""

    array: NDArray[np.float32]
    first: int
    count: int

    @property
    def rows(self) -> NDArray[np.float32]:
        """The rows themselves."""
        return self.array[self.first : self.first + self.count]


class Launch(Protocol):
    """A batch on its way. Its rows must not change before the result is there."""

    end_ns: int | None  # time.monotonic_ns at which the result is there; None if nobody knows

    def result(self) -> NDArray[np.float32]:
        """Waits for the scores of all parts, one after the other."""


class Device(Protocol):
    """Something that scores packed rows. Callers keep at most DEPTH launches in flight."""

    name: str

    def launch(self, parts: Sequence[Part]) -> Launch:
        """Starts a batch made of the parts."""


class SimLaunch:
    """A launch on the simulated timeline."""

    def __init__(self, scores: NDArray[np.float32], end_ns: int) -> None:
        """The scores are known at once, and given out at the end."""
        self._scores = scores
        self.end_ns: int | None = end_ns
        self._end = end_ns

    def result(self) -> NDArray[np.float32]:
        """Sleeps until the timeline says that the device has finished."""
        left = self._end - time.monotonic_ns()
        if left > 0:
            time.sleep(left * 1e-9)
        return self._scores


class SimDevice:
    """A simulated accelerator: one launch after the other, each CALL_NS and ROW_NS a row; padding is free."""

    name = "sim (simulated accelerator)"

    def __init__(self, bundle: Bundle) -> None:
        """Starts with a free timeline."""
        self._score = SimScore(bundle)
        self._mu = threading.Lock()
        self._busy = 0

    def launch(self, parts: Sequence[Part]) -> SimLaunch:
        """Puts a batch on the timeline and computes its scores meanwhile. Threads may call it."""
        cost = CALL_NS + ROW_NS * sum(p.count for p in parts)
        with self._mu:
            end = self._busy = max(time.monotonic_ns(), self._busy) + cost
        scores = [self._score(p.rows) for p in parts]
        return SimLaunch(scores[0] if len(scores) == 1 else np.concatenate(scores), end)


def open_device(kind: str, bundle: Bundle) -> Device:
    """Opens ``sim`` or ``jax``, ready to score without further compilation."""
    if kind == "sim":
        return SimDevice(bundle)
    from rankd_bench_py.jaxdevice import JaxDevice  # JAX only where it is used: it costs memory and seconds

    return JaxDevice(bundle)


def buckets(max_batch: int) -> list[int]:
    """Powers of two up to ``max_batch``, and ``max_batch`` itself."""
    sizes = []
    size = 1
    while size < max_batch:
        sizes.append(size)
        size *= 2
    return [*sizes, max_batch]


def bucket(rows: int, max_batch: int) -> int:
    """The smallest bucket that holds ``rows``."""
    return min(1 << (rows - 1).bit_length(), max_batch)
