"""The score of rankd's simulated accelerator, bit for bit, for many rows at once.

The scalars of a row are column 0 of every pooled vector and then the dense features. Scalar s weighs k(s) / 2^24 with
k(s) = ((2s+1) * 0x9E3779B1 mod 2^32) >> 8 | 1; the score is the fraction of the sum, in float64 and in the order of s.
"""

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle


class SimScore:
    """Scores packed rows. Keeps nothing between calls, so threads may share it."""

    def __init__(self, bundle: Bundle) -> None:
        """Prepares the weights of the model's scalars."""
        self._tables = len(bundle.tables)
        self._pooled = slice(0, bundle.pooled_floats, bundle.dim)
        self._dense = slice(bundle.dense_column, bundle.dense_column + bundle.dense_width)
        count = self._tables + bundle.dense_width
        k = ((2 * np.arange(count, dtype=np.uint64) + 1) * 0x9E3779B1 % 2**32) >> 8 | 1
        self._weights = (k.astype(np.float64) / 2**24).reshape(count, 1)

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The float32 scores ``[n]`` of ``rows`` ``[n, row_floats]``."""
        count = len(rows)
        # A reduction over the first axis adds in the order of the scalars only if there is a second axis to run along:
        # over a single column NumPy would add pairwise.
        products = np.zeros((len(self._weights), max(count, 2)))
        tables, weights = self._tables, self._weights
        np.multiply(rows[:, self._pooled].T, weights[:tables], out=products[:tables, :count])
        np.multiply(rows[:, self._dense].T, weights[tables:], out=products[tables:, :count])
        total = np.add.reduce(products, axis=0)[:count]
        total -= np.floor(total)
        scores: NDArray[np.float32] = total.astype(np.float32)
        return scores
