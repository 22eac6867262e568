import numpy as np
import pytest

from rankd_export import BundleError, Dense, Table, layout
from rankd_export.examples import dlrm_dcnv2


def table(name: str, dim: int) -> Table:
    return Table(name, np.zeros((1, dim), np.float32))


def test_pooled_vectors_come_first_and_start_on_cache_lines() -> None:
    plan = layout.plan([table("b", 5), table("a", 16), table("c", 17)], [Dense("y", 13), Dense("x", 1)])
    assert {n: s.offset for n, s in plan.pooled.items()} == {"b": 0, "a": 64, "c": 128}
    assert {n: s.offset for n, s in plan.dense.items()} == {"y": 256, "x": 256 + 13 * 4}
    assert plan.arrays == (layout.Array("float32", 320),)


def test_layout_of_dlrm_dcnv2_is_the_published_one() -> None:
    plan = layout.plan([table(f"t{i:02d}", 128) for i in range(26)], [Dense("dense", dlrm_dcnv2.DENSE_WIDTH)])
    assert [s.offset for s in plan.pooled.values()] == [t * 512 for t in range(26)]
    assert plan.dense["dense"].offset == 13312
    assert plan.arrays == (layout.Array("float32", 13376),)


def test_pooled_vectors_of_two_bytes_have_an_array_of_their_own() -> None:
    plan = layout.plan([table("a", 5), table("b", 40)], [Dense("d", 2)], "bfloat16")
    assert plan.arrays == (layout.Array("bfloat16", 192), layout.Array("float32", 64))
    assert {n: (s.array, s.offset) for n, s in {**plan.pooled, **plan.dense}.items()} == {
        "a": (0, 0),
        "b": (0, 64),
        "d": (1, 0),
    }
    a, b = np.full((2, 5), 1 + 2.0**-9), np.full((2, 40), 3.0)
    pooled, dense = plan.pack({"d": np.full((2, 2), 0.1)}, {"a": a, "b": b})
    np.testing.assert_array_equal(pooled[:, :5].astype(np.float64), 1)
    np.testing.assert_array_equal(pooled[:, 32:72].astype(np.float64), 3)
    np.testing.assert_array_equal(dense[:, :2], np.float32(0.1))
    assert layout.plan([table("a", 5)], [], "bfloat16").arrays == (layout.Array("bfloat16", 64),)
    with pytest.raises(BundleError, match='pooled_dtype "float16"'):
        layout.plan([table("a", 5)], [], "float16")


def test_pack_places_every_input_and_clears_the_gaps() -> None:
    plan = layout.plan([table("a", 5)], [Dense("d", 2)])
    a, d = np.arange(10, dtype=np.float32).reshape(2, 5), np.full((2, 2), -1, np.float32)
    (packed,) = plan.pack({"d": d}, {"a": a})
    assert packed.shape == (2, 32)
    np.testing.assert_array_equal(packed[:, :5], a)
    np.testing.assert_array_equal(packed[:, 16:18], d)
    assert not packed[:, 5:16].any()
    assert not packed[:, 18:].any()
