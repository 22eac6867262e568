"""The simulated accelerator's score, bit for bit."""

import numpy as np
import pytest
from conftest import sim_score
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.simscore import SimScore

# float32 bits of what rankd's own simulated device gives for the rows below.
FROM_RANKD = [
    1045889357,
    1035567313,
    1046872082,
    1019725351,
    1028204148,
    1061205703,
    1015654699,
    1041921713,
    1064524907,
    1062833041,
    1049117798,
    1050683305,
    1033755893,
    1054601718,
    1038358448,
    1027086327,
]


def rows_of(bundle: Bundle, count: int) -> NDArray[np.float32]:
    r, j = np.ogrid[:count, : bundle.row_floats]
    numbers: NDArray[np.float32] = ((r * 7919 + j * 104729) % 20011 - 10005).astype(np.float32) / np.float32(77)
    return numbers


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_equals_rankds_own_device(bundle: Bundle, count: int) -> None:
    got = SimScore(bundle)(rows_of(bundle, count))
    assert got.view(np.uint32).tolist() == FROM_RANKD[:count]


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_adds_in_the_order_of_the_scalars(bundle: Bundle, count: int) -> None:
    rows = np.random.default_rng(count).standard_normal((count, bundle.row_floats), np.float32) * 1000
    pooled = rows[:, : bundle.pooled_floats : bundle.dim]
    dense = rows[:, bundle.dense_column : bundle.dense_column + bundle.dense_width]
    want = [sim_score(row) for row in np.concatenate([pooled, dense], axis=1)]
    assert SimScore(bundle)(rows).tolist() == want


def test_other_columns_do_not_count(bundle: Bundle) -> None:
    rows = rows_of(bundle, 4)
    before = SimScore(bundle)(rows)
    rows[:, 1 : bundle.dim] = np.nan
    rows[:, bundle.dense_column + bundle.dense_width :] = np.nan
    assert np.array_equal(SimScore(bundle)(rows), before)
