"""Looks up and pools embedding rows with NumPy: one ``take`` for all tables, then sums.

What was measured (one core, bags of DLRM-DCNv2, 6.2M rows on huge pages) and led to this form:

- One array for all tables with one ``take`` beats a ``take`` a table at every batch size: at one example the calls cost
  more than the memory. ``mode="clip"`` matters: in the mode ``raise`` NumPy gathers into a buffer of its own and
  copies. Ids are therefore checked before, all at once.
- A batch is worked through ``CHUNK`` examples at a time, so that the gathered rows are still in the second-level cache
  when they are summed.
- The sums of many short bags are one product with a matrix of zeros and ones, which is one call; each
  ``add.reduce`` is a call for one table. Long bags are summed with ``add.reduce``, since the product's work grows with
  the number of tables. ``add.reduce`` adds in the order of the ids; the product does where the processor has AVX-512,
  elsewhere the BLAS of NumPy takes another order and the last bits differ. (``add.reduceat`` does all bags in
  one call too, but adds column by column and is the slowest by far; so is ``einsum``.)
- A zero in the product times an infinity in a table would be NaN, so tables must be finite. Bundles are.

An input may come with one row for all examples of a request (one user, many candidates). Its bags are then pooled once,
into the first packed row, and one assignment for each run of neighbouring tables repeats them in the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle, Table
from rankd_bench_py.tables import first_rows

CHUNK = 4  # examples
LONG_BAG = 48  # ids; bags from here on are summed with add.reduce
MAX_SPLITS = 16  # ways to split the tables that are kept prepared

Mask = tuple[bool, ...]  # by table


@dataclass(slots=True, frozen=True)
class Once:
    """Ids that came with one row for all examples: of the tables in ``tables``, side by side ``[1, ids of these]``."""

    tables: Mask
    ids: NDArray[Any]


@dataclass(slots=True, frozen=True)
class Block:
    """Examples as arrays: ids ``[rows, ids of the tables that are not in once]``, dense ``[rows or 1, width]``."""

    rows: int
    ids: NDArray[Any]
    dense: NDArray[np.float32]
    once: Once | None = None


class Lookup:
    """Pools the bags of a model. Not for two threads at once: it has buffers of its own."""

    def __init__(self, bundle: Bundle, table: NDArray[np.float32]) -> None:
        """Uses ``table`` as tables.load_private or attach_shared gives it."""
        self._bundle = bundle
        self._table = table
        self._shape = len(bundle.tables), bundle.dim
        self._dense = slice(bundle.dense_column, bundle.dense_column + bundle.dense_width)
        self._all = _Bags(bundle, range(len(bundle.tables)))
        self._splits: dict[Mask, tuple[_Bags, _Bags]] = {}

    def bad(self, block: Block) -> tuple[Table, int, int] | None:
        """The table, the example and the id of the first id that is not in its table; None if all are."""
        if block.once is None:
            return self._all.bad(block.ids)
        own, once = self._split(block.once.tables)
        return once.bad(block.once.ids) or own.bad(block.ids)

    def pool(self, block: Block, out: NDArray[np.float32]) -> None:
        """Writes the packed rows of a checked block to ``out`` ``[block.rows, row_floats]``."""
        count, dim = self._shape
        pooled = out[:, : count * dim].reshape(len(out), count, dim)
        own = self._all
        if block.once is not None:
            own, once = self._split(block.once.tables)
            once.pool(self._table, block.once.ids, pooled[:1])
            for first, last in once.spans:
                pooled[1:, first:last] = pooled[:1, first:last]
        own.pool(self._table, block.ids, pooled)
        out[:, self._dense] = block.dense

    def pool_all(self, blocks: Sequence[Block], out: NDArray[np.float32]) -> int:
        """Writes the packed rows of checked blocks, one after the other, and returns how many there are."""
        at = 0
        for block in blocks:
            self.pool(block, out[at : at + block.rows])
            at += block.rows
        return at

    def _split(self, once: Mask) -> "tuple[_Bags, _Bags]":
        """The tables that are not in ``once``, and those that are."""
        split = self._splits.get(once)
        if split is None:
            if len(self._splits) == MAX_SPLITS:
                self._splits.clear()
            tables = range(len(once))
            split = self._splits[once] = (
                _Bags(self._bundle, [t for t in tables if not once[t]]),
                _Bags(self._bundle, [t for t in tables if once[t]]),
            )
        return split


class _Bags:
    """Some tables of a model, and the plan and buffers for looking up their bags, whose ids lie side by side."""

    def __init__(self, bundle: Bundle, chosen: Sequence[int]) -> None:
        tables = [bundle.tables[t] for t in chosen]
        hots = [t.hotness for t in tables]
        firsts, times = first_rows(bundle), np.array(hots, np.intp)
        self._column = [t for t in tables for _ in range(t.hotness)]
        self._first = np.repeat(np.array([firsts[t] for t in chosen], np.intp), times)
        rows = np.repeat(np.array([t.rows for t in tables], np.int64), times)
        # Compared as unsigned numbers, negative ids are too large as well.
        self._limits: dict[np.dtype[Any], tuple[np.dtype[Any], NDArray[Any]]] = {
            np.dtype("<i4"): (np.dtype("<u4"), rows.astype(np.uint32)),
            np.dtype("<i8"): (np.dtype("<u8"), rows.astype(np.uint64)),
        }
        self.spans = _spans(chosen)
        self._runs, self._long = _plan(chosen, hots)
        self._index = np.empty((CHUNK, len(self._first)), np.intp)
        self._rows = np.empty((CHUNK, len(self._first), bundle.dim), np.float32)

    def bad(self, ids: NDArray[Any]) -> tuple[Table, int, int] | None:
        """The table, the example and the id of the first id that is not in its table; None if all are."""
        unsigned, limits = self._limits[ids.dtype]
        good = ids.view(unsigned) < limits
        if good.all():
            return None
        row, column = np.argwhere(~good)[0]
        return self._column[column], int(row), int(ids[row, column])

    def pool(self, table: NDArray[np.float32], ids: NDArray[Any], pooled: NDArray[np.float32]) -> None:
        """Writes the sums of checked ids ``[n, all of these]`` to their places in ``pooled`` ``[n, tables, dim]``."""
        if not self._column:
            return
        for at in range(0, len(ids), CHUNK):
            part = ids[at : at + CHUNK]
            index, rows, to = self._index[: len(part)], self._rows[: len(part)], pooled[at : at + CHUNK]
            np.add(part, self._first, out=index)
            table.take(index, axis=0, out=rows, mode="clip")
            for first, last, start, end, ones in self._runs:
                np.matmul(ones, rows[:, start:end], out=to[:, first:last])
            for t, start, end in self._long:
                np.add.reduce(rows[:, start:end], axis=1, out=to[:, t])


def _spans(chosen: Sequence[int]) -> list[tuple[int, int]]:
    """The runs of neighbours (first to last, exclusive) in ascending numbers."""
    spans: list[tuple[int, int]] = []
    for t in chosen:
        if spans and spans[-1][1] == t:
            spans[-1] = spans[-1][0], t + 1
        else:
            spans.append((t, t + 1))
    return spans


_Run = tuple[int, int, int, int, NDArray[np.float32]]


def _plan(chosen: Sequence[int], hots: list[int]) -> tuple[list[_Run], list[tuple[int, int, int]]]:
    """Splits the tables into runs of short bags (tables first to last, ids start to end, the matrix) and long bags."""
    offsets = dict(zip(chosen, np.concatenate([[0], np.cumsum(hots)]).tolist(), strict=False))
    hot = dict(zip(chosen, hots, strict=True))
    long = [(t, offsets[t], offsets[t] + hot[t]) for t in chosen if hot[t] >= LONG_BAG]
    runs: list[_Run] = []
    for first, last in _spans([t for t in chosen if hot[t] < LONG_BAG]):
        start, end = offsets[first], offsets[last - 1] + hot[last - 1]
        ones = np.zeros((last - first, end - start), np.float32)
        for t in range(first, last):
            ones[t - first, offsets[t] - start : offsets[t] - start + hot[t]] = 1
        runs.append((first, last, start, end, ones))
    return runs, long
