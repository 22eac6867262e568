"""The check that rows do not see each other.

A server puts rows of different requests into one batch and pads it with whatever the memory held before. So the score
of a row may depend on that row alone: not on its neighbours, its position, or the size of the batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd_export.errors import BundleError

Score = Callable[[Sequence[NDArray[Any]]], NDArray[np.float32]]


def check(score: Score, packed: Sequence[NDArray[Any]], tolerance: float) -> None:
    """Runs ``score`` on arrays ``[n, width]`` permuted, padded with NaN, and one row at a time; n must be at least 2.

    Scores may move by ``tolerance`` of the largest score (or of 1), because another batch size may add in another
    order. Raises a BundleError that names the first row that moved further.
    """
    want = score(packed)
    bad = np.flatnonzero(~np.isfinite(want).all(axis=1))
    if len(bad):
        raise BundleError(f"check rows: row {bad[0]}: got scores {want[bad[0]].tolist()}, want finite ones")
    bound = tolerance * max(1.0, float(np.abs(want).max()))

    rows = len(want)
    _compare("with the rows in another order", score([a[::-1] for a in packed])[::-1], want, bound)
    padded = score([np.concatenate([a, np.full_like(a, np.nan)]) for a in packed])[:rows]
    _compare("with NaN rows after them", padded, want, bound)
    alone = np.concatenate([score([a[i : i + 1] for a in packed]) for i in range(min(2, rows))])
    _compare("scored one at a time", alone, want[: len(alone)], bound)


def _compare(how: str, got: NDArray[np.float32], want: NDArray[np.float32], bound: float) -> None:
    moved = ~(np.abs(got - want) <= bound)  # the negation also catches NaN
    bad = np.flatnonzero(moved.any(axis=1))
    if len(bad):
        row = int(bad[0])
        raise BundleError(
            f"check rows: {how}: row {row}: got {got[row].tolist()}, want {want[row].tolist()} within {bound:.1e}; "
            "the function must treat rows independently (no statistics over the batch, no use of its size)"
        )
