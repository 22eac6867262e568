"""Brings the inputs of several requests together, and takes out those that cannot be served."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Lookup
from rankd_bench_py.wire import Examples, Refusal

MAX_DELAY = 0.001  # seconds that the oldest request waits for company

_INT64 = np.dtype("<i8")


class Item(Protocol):
    """Something that carries the inputs of a request."""

    @property
    def examples(self) -> Examples:
        """The inputs."""


ItemT = TypeVar("ItemT", bound=Item)


class Inputs:
    """Makes arrays of requests for one model."""

    def __init__(self, bundle: Bundle, lookup: Lookup) -> None:
        """Checks ids with ``lookup``."""
        self._bundle = bundle
        self._lookup = lookup

    def arrays(self, examples: Sequence[Examples]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The ids and dense features of all examples, one request after the other."""
        width, dense_width = self._bundle.ids_per_row, self._bundle.dense_width
        if len(examples) == 1:
            only = examples[0]
            return (
                np.frombuffer(only.ids, only.ids_dtype).reshape(-1, width),
                np.frombuffer(only.dense, np.float32).reshape(-1, dense_width),
            )
        dtype = examples[0].ids_dtype
        if all(e.ids_dtype == dtype for e in examples):
            ids = np.frombuffer(b"".join([e.ids for e in examples]), dtype)
        else:
            ids = np.concatenate([np.frombuffer(e.ids, e.ids_dtype) for e in examples], dtype=_INT64)
        dense = np.frombuffer(b"".join([e.dense for e in examples]), np.float32)
        return ids.reshape(-1, width), dense.reshape(-1, dense_width)

    def checked(
        self, items: list[ItemT], refuse: Callable[[ItemT, Refusal], None]
    ) -> tuple[list[ItemT], NDArray[Any], NDArray[np.float32]]:
        """The items whose ids are all good and their arrays; the others are refused. One check is enough if all are."""
        ids, dense = self.arrays([i.examples for i in items])
        if self._lookup.first_bad(ids) is None:
            return items, ids, dense
        good = []
        for item in items:
            own, _ = self.arrays([item.examples])
            bad = self._lookup.first_bad(own)
            if bad is None:
                good.append(item)
            else:
                refuse(item, self._refusal(own, bad))
        if not good:
            return [], ids[:0], dense[:0]
        return good, *self.arrays([i.examples for i in good])

    def _refusal(self, ids: NDArray[Any], bad: tuple[int, int]) -> Refusal:
        row, column = bad
        at = 0
        for table in self._bundle.tables:
            if column < at + table.hotness:
                return Refusal(f'input "{table.name}" row {row}: got id {ids[row, column]}, want 0 to {table.rows - 1}')
            at += table.hotness
        raise AssertionError(f"column {column} of {at}")
