"""Looks up and pools embedding rows with NumPy: one ``take`` for all tables, then sums.

What was measured (one core, bags of DLRM-DCNv2, 6.2M rows on huge pages) and led to this form:

- One array for all tables with one ``take`` beats a ``take`` a table at every batch size: at one example the calls cost
  more than the memory. ``mode="clip"`` matters: in the mode ``raise`` NumPy gathers into a buffer of its own and
  copies. Ids are therefore checked before, all at once.
- A batch is worked through ``CHUNK`` examples at a time, so that the gathered rows are still in the second-level cache
  when they are summed.
- The sums of many short bags are one product with a matrix of zeros and ones, which is one call; each
  ``add.reduce`` is a call for one table. Long bags are summed with ``add.reduce``, since the product's work grows with
  the number of tables. Both add in the order of the ids, so they give the same bits. (``add.reduceat`` does all bags in
  one call too, but adds column by column and is the slowest by far; so is ``einsum``.)
- A zero in the product times an infinity in a table would be NaN, so tables must be finite. Bundles are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.tables import first_rows

CHUNK = 4  # examples
LONG_BAG = 48  # ids; bags from here on are summed with add.reduce


class Lookup:
    """Pools the bags of a model. Not for two threads at once: it has buffers of its own."""

    def __init__(self, bundle: Bundle, table: NDArray[np.float32]) -> None:
        """Uses ``table`` as tables.load_private or attach_shared gives it."""
        self._table = table
        self._dim = bundle.dim
        self._count = len(bundle.tables)
        self._dense = slice(bundle.dense_column, bundle.dense_column + bundle.dense_width)
        hots = [t.hotness for t in bundle.tables]
        self._first = np.repeat(np.array(first_rows(bundle), np.intp), hots)
        rows = np.repeat(np.array([t.rows for t in bundle.tables]), hots)
        # Compared as unsigned numbers, negative ids are too large as well.
        self._limits: dict[np.dtype[Any], tuple[np.dtype[Any], NDArray[Any]]] = {
            np.dtype("<i4"): (np.dtype("<u4"), rows.astype(np.uint32)),
            np.dtype("<i8"): (np.dtype("<u8"), rows.astype(np.uint64)),
        }
        self._runs, self._long = _plan(hots)
        self._index = np.empty((CHUNK, len(self._first)), np.intp)
        self._rows = np.empty((CHUNK, len(self._first), bundle.dim), np.float32)

    def first_bad(self, ids: NDArray[Any]) -> tuple[int, int] | None:
        """The example and the column of the first id that is not in its table; None if all are."""
        unsigned, limits = self._limits[ids.dtype]
        good = ids.view(unsigned) < limits
        if good.all():
            return None
        row, column = np.argwhere(~good)[0]
        return int(row), int(column)

    def pool(self, ids: NDArray[Any], dense: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Writes packed rows to ``out`` ``[n, row_floats]``, from checked ids ``[n, ids_per_row]`` and dense."""
        pooled = out[:, : self._count * self._dim].reshape(len(out), self._count, self._dim)
        for at in range(0, len(ids), CHUNK):
            part = ids[at : at + CHUNK]
            index, rows, to = self._index[: len(part)], self._rows[: len(part)], pooled[at : at + CHUNK]
            np.add(part, self._first, out=index)
            self._table.take(index, axis=0, out=rows, mode="clip")
            for first, last, start, end, ones in self._runs:
                np.matmul(ones, rows[:, start:end], out=to[:, first:last])
            for table, start, end in self._long:
                np.add.reduce(rows[:, start:end], axis=1, out=to[:, table])
        out[:, self._dense] = dense


_Run = tuple[int, int, int, int, NDArray[np.float32]]


def _plan(hots: list[int]) -> tuple[list[_Run], list[tuple[int, int, int]]]:
    """Splits the tables into runs of short bags (tables first to last, ids start to end, the matrix) and long bags."""
    offsets = np.concatenate([[0], np.cumsum(hots)]).tolist()
    runs: list[_Run] = []
    long = [(t, offsets[t], offsets[t + 1]) for t, hot in enumerate(hots) if hot >= LONG_BAG]
    first = 0
    for last in [t for t, _, _ in long] + [len(hots)]:
        if first < last:
            start, end = offsets[first], offsets[last]
            ones = np.zeros((last - first, end - start), np.float32)
            for t in range(first, last):
                ones[t - first, offsets[t] - start : offsets[t + 1] - start] = 1
            runs.append((first, last, start, end, ones))
        first = last + 1
    return runs, long
