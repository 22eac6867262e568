"""Pooling against a plain sum, and checks of ids."""

import numpy as np
import pytest
from conftest import by_table, draw, pooled_in_order
from numpy.typing import NDArray

from rankd_bench_py.batching import Call, Inputs, Queue
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import Lookup
from rankd_bench_py.tables import attach_shared, create_shared, load_private
from rankd_bench_py.wire import Examples, Refusal


@pytest.fixture(scope="module")
def lookup(bundle: Bundle) -> Lookup:
    return Lookup(bundle, load_private(bundle)[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 63, 64])
def test_pools_as_a_sum_in_order(
    bundle: Bundle, lookup: Lookup, tables: list[NDArray[np.float32]], rows: int, dtype: type
) -> None:
    ids, dense = draw(bundle, rows, seed=rows)
    out = np.full((rows + 1, bundle.row_floats), 7, np.float32)
    lookup.pool(ids.astype(dtype), dense, out[:rows])
    want = pooled_in_order(bundle, tables, by_table(bundle, ids))
    assert np.array_equal(out[:rows, : bundle.pooled_floats], want.reshape(rows, -1))
    assert np.array_equal(out[:rows, bundle.dense_column :][:, : bundle.dense_width], dense)
    assert (out[rows] == 7).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_finds_ids_outside_their_table(bundle: Bundle, lookup: Lookup, dtype: type) -> None:
    ids = draw(bundle, 5, seed=1)[0].astype(dtype)
    assert lookup.first_bad(ids) is None
    hots = [t.hotness for t in bundle.tables]
    column = sum(hots[:7]) + hots[7] - 1
    for bad in (-1, bundle.tables[7].rows, np.iinfo(dtype).max, np.iinfo(dtype).min):
        wrong = ids.copy()
        wrong[3, column] = bad
        assert lookup.first_bad(wrong) == (3, column)
    last = ids.copy()
    last[:, column] = bundle.tables[7].rows - 1
    assert lookup.first_bad(last) is None


def test_shared_tables_hold_what_private_ones_hold(bundle: Bundle) -> None:
    shared, _ = attach_shared(bundle, create_shared(bundle))
    assert np.array_equal(shared, load_private(bundle)[0])
    with pytest.raises(ValueError, match="read-only"):
        shared[0, 0] = 1


def call(ids: NDArray[np.integer], dense: NDArray[np.float32]) -> Call:
    return Call(Examples(len(ids), ids.tobytes(), ids.dtype, dense.tobytes()))


def test_takes_out_bad_requests_alone(bundle: Bundle, lookup: Lookup) -> None:
    drawn = [draw(bundle, rows, seed=rows) for rows in (1, 3, 2, 5)]
    drawn[1][0][2, 0] = -4
    ids3 = drawn[3][0].astype(np.int64)  # mixed types in one batch
    calls = [call(ids, dense) for ids, dense in drawn[:3]] + [call(ids3, drawn[3][1])]
    good, ids, dense = Inputs(bundle, lookup).checked(calls)
    assert good == [calls[0], calls[2], calls[3]]
    with pytest.raises(Refusal, match=r'input "cat_0" row 2: got id -4, want 0 to 499'):
        calls[1].wait()
    assert np.array_equal(ids, np.concatenate([drawn[0][0], drawn[2][0], ids3]))
    assert np.array_equal(dense, np.concatenate([drawn[0][1], drawn[2][1], drawn[3][1]]))


def test_queue_fills_batches_and_keeps_order(bundle: Bundle) -> None:
    queue = Queue(max_rows=8)
    calls = [call(*draw(bundle, rows, seed=1)) for rows in (3, 5, 4, 1, 2, 7)]
    for one in calls:
        queue.put(one)
    assert queue.next_batch() == calls[:2]
    assert queue.next_batch() == calls[2:5]
    assert queue.next_batch() == calls[5:]
