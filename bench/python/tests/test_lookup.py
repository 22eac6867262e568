"""Pooling against a plain sum, and checks of ids."""

import numpy as np
import pytest
from conftest import by_table, draw, pooled_in_order, same_sums
from numpy.typing import NDArray

from rankd_bench_py.batching import Call, Inputs, Queue
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.lookup import MAX_SPLITS, Block, Lookup, Once
from rankd_bench_py.tables import attach_shared, create_shared, load_private
from rankd_bench_py.wire import Examples, Refusal


@pytest.fixture(scope="module")
def lookup(bundle: Bundle) -> Lookup:
    return Lookup(bundle, load_private(bundle)[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 63, 64])
def test_pools_as_a_sum(
    bundle: Bundle, lookup: Lookup, tables: list[NDArray[np.float32]], rows: int, dtype: type
) -> None:
    ids, dense = draw(bundle, rows, seed=rows)
    out = np.full((rows + 1, bundle.row_floats), 7, np.float32)
    lookup.pool(Block(rows, ids.astype(dtype), dense), out[:rows])
    want = pooled_in_order(bundle, tables, by_table(bundle, ids))
    assert same_sums(out[:rows, : bundle.pooled_floats], want.reshape(rows, -1))
    assert np.array_equal(out[:rows, bundle.dense_column :][:, : bundle.dense_width], dense)
    assert (out[rows] == 7).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_finds_ids_outside_their_table(bundle: Bundle, lookup: Lookup, dtype: type) -> None:
    drawn, dense = draw(bundle, 5, seed=1)
    ids = drawn.astype(dtype)
    assert lookup.bad(Block(5, ids, dense)) is None
    hots = [t.hotness for t in bundle.tables]
    column = sum(hots[:7]) + hots[7] - 1
    for bad in (-1, bundle.tables[7].rows, np.iinfo(dtype).max, np.iinfo(dtype).min):
        wrong = ids.copy()
        wrong[3, column] = bad
        assert lookup.bad(Block(5, wrong, dense)) == (bundle.tables[7], 3, bad)
    last = ids.copy()
    last[:, column] = bundle.tables[7].rows - 1
    assert lookup.bad(Block(5, last, dense)) is None


def split(bundle: Bundle, ids: NDArray[np.integer], once: tuple[bool, ...]) -> tuple[NDArray[np.integer], Once]:
    """Packed ids as those with a row each and those with one row for all, whose rows are all the same then."""
    parts = list(by_table(bundle, ids).values())
    own = [p for p, o in zip(parts, once, strict=True) if not o]
    shared = [p[:1] for p, o in zip(parts, once, strict=True) if o]
    empty = [ids[:, :0]]
    return np.concatenate(own or empty, axis=1), Once(once, np.concatenate(shared or empty, axis=1))


def repeat_first(bundle: Bundle, ids: NDArray[np.integer], once: tuple[bool, ...]) -> NDArray[np.integer]:
    parts = by_table(bundle, ids).values()
    return np.concatenate([np.repeat(p[:1], len(p), 0) if o else p for p, o in zip(parts, once, strict=True)], axis=1)


MASKS = [
    tuple(t < 13 for t in range(26)),  # the workload shared-user
    tuple(t >= 13 for t in range(26)),  # with the long bags
    tuple(t % 2 == 0 for t in range(26)),  # runs of one
    tuple(t in (0, 20, 25) for t in range(26)),
    (True,) * 26,
]


@pytest.mark.parametrize("dense_rows", [1, 0])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 63])
@pytest.mark.parametrize("once", MASKS)
def test_pools_what_serves_all_rows_once(
    bundle: Bundle,
    lookup: Lookup,
    tables: list[NDArray[np.float32]],
    once: tuple[bool, ...],
    rows: int,
    dense_rows: int,
) -> None:
    drawn, dense = draw(bundle, rows, seed=rows)
    ids = repeat_first(bundle, drawn, once)
    own, shared = split(bundle, ids, once)
    out = np.full((rows + 1, bundle.row_floats), 7, np.float32)
    lookup.pool(Block(rows, own, dense[:dense_rows] if dense_rows else dense, shared), out[:rows])
    want = pooled_in_order(bundle, tables, by_table(bundle, ids))
    assert same_sums(out[:rows, : bundle.pooled_floats], want.reshape(rows, -1))
    expected = np.repeat(dense[:1], rows, 0) if dense_rows else dense
    assert np.array_equal(out[:rows, bundle.dense_column :][:, : bundle.dense_width], expected)
    assert (out[rows] == 7).all()


def test_reads_what_serves_all_rows_once(bundle: Bundle) -> None:
    read: list[int] = []

    class Counting(np.ndarray):  # type: ignore[type-arg]
        def take(self, indices, *args, **kwargs):  # type: ignore[no-untyped-def]
            read.append(indices.size)
            return np.asarray(self).take(indices, *args, **kwargs)

    lookup = Lookup(bundle, load_private(bundle)[0].view(Counting))
    once = MASKS[0]
    ids, dense = draw(bundle, 40, seed=1)
    own, shared = split(bundle, repeat_first(bundle, ids, once), once)
    lookup.pool(Block(40, own, dense[:1], shared), np.empty((40, bundle.row_floats), np.float32))
    assert sum(read) == 37 + 40 * (214 - 37)


def test_finds_bad_ids_on_both_sides(bundle: Bundle, lookup: Lookup) -> None:
    once = MASKS[0]
    ids, dense = draw(bundle, 5, seed=1)
    own, shared = split(bundle, repeat_first(bundle, ids, once), once)
    assert lookup.bad(Block(5, own, dense, shared)) is None
    shared.ids[0, 3] = 500
    assert lookup.bad(Block(5, own, dense, shared)) == (bundle.tables[1], 0, 500)
    shared.ids[0, 3] = 0
    own[4, 0] = -1
    assert lookup.bad(Block(5, own, dense, shared)) == (bundle.tables[13], 4, -1)


def test_keeps_few_splits(bundle: Bundle, lookup: Lookup) -> None:
    ids, dense = draw(bundle, 2, seed=1)
    for t in range(26):
        once = tuple(t == k for k in range(26))
        own, shared = split(bundle, repeat_first(bundle, ids, once), once)
        assert lookup.bad(Block(2, own, dense, shared)) is None
    assert len(lookup._splits) <= MAX_SPLITS


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
    good, (block,) = Inputs(bundle, lookup).checked(calls)
    assert good == [calls[0], calls[2], calls[3]]
    with pytest.raises(Refusal, match=r'input "cat_0" row 2: got id -4, want 0 to 499'):
        calls[1].wait()
    assert np.array_equal(block.ids, np.concatenate([drawn[0][0], drawn[2][0], ids3]))
    assert np.array_equal(block.dense, np.concatenate([drawn[0][1], drawn[2][1], drawn[3][1]]))
    assert block.rows == 8


def test_blocks_keep_the_order_of_calls(bundle: Bundle, lookup: Lookup, tables: list[NDArray[np.float32]]) -> None:
    once = MASKS[0]
    calls, want = [], []
    for k, rows in enumerate((1, 3, 5, 4, 2, 6)):
        ids, dense = draw(bundle, rows, seed=rows)
        if k in (2, 3, 5):
            ids = repeat_first(bundle, ids, once)
            own, shared = split(bundle, ids, once)
            calls.append(Call(Examples(rows, block=Block(rows, own, dense, shared))))
        else:
            calls.append(call(ids, dense))
        want.append(pooled_in_order(bundle, tables, by_table(bundle, ids)).reshape(rows, -1))
    good, blocks = Inputs(bundle, lookup).checked(calls)
    assert good == calls
    assert [b.rows for b in blocks] == [4, 5, 4, 2, 6]
    out = np.empty((30, bundle.row_floats), np.float32)
    assert lookup.pool_all(blocks, out) == 21
    assert same_sums(out[:21, : bundle.pooled_floats], np.concatenate(want))
    calls[3].examples.block.ids[1, 0] = -1  # type: ignore[union-attr]
    good, blocks = Inputs(bundle, lookup).checked(calls)
    assert good == calls[:3] + calls[4:]
    assert [b.rows for b in blocks] == [4, 5, 2, 6]
    with pytest.raises(Refusal, match=r'input "cat_13" row 1: got id -1'):
        calls[3].wait()


def test_queue_fills_batches_and_keeps_order(bundle: Bundle) -> None:
    queue = Queue(max_rows=8)
    calls = [call(*draw(bundle, rows, seed=1)) for rows in (3, 5, 4, 1, 2, 7)]
    for one in calls:
        queue.put(one)
    assert queue.next_batch() == calls[:2]
    assert queue.next_batch() == calls[2:5]
    assert queue.next_batch() == calls[5:]
