import numpy as np
import pytest

from rankd_export import BundleError, manifest, pooling


def table(combiner: str = "sum", policy: str = "reject", hotness: int = 0, name: str = "t") -> manifest.Table:
    return manifest.Table(name, 4, 2, hotness, combiner, policy, "float32", "f", "t", manifest.Slot(0, 0))


ROWS = np.array([[1, 10], [2, 20], [4, 40]], np.float32)


@pytest.mark.parametrize(
    ("combiner", "weights", "want"),
    [
        ("sum", None, [[3, 30], [0, 0], [4, 40]]),
        ("mean", None, [[1.5, 15], [0, 0], [4, 40]]),
        ("sqrtn", None, [[3 / np.sqrt(2), 30 / np.sqrt(2)], [0, 0], [4, 40]]),
        ("sum", [3, 1, 2], [[5, 50], [0, 0], [8, 80]]),
        ("mean", [3, 1, 2], [[5 / 4, 50 / 4], [0, 0], [4, 40]]),
        ("sqrtn", [3, 1, 2], [[5 / np.sqrt(10), 50 / np.sqrt(10)], [0, 0], [4, 40]]),
    ],
)
def test_combiners(combiner: str, weights: list[float] | None, want: list[list[float]]) -> None:
    lengths = np.array([2, 0, 1])
    bag = pooling.Bags(np.zeros(3, np.int64), lengths, None if weights is None else np.array(weights, np.float64))
    np.testing.assert_allclose(pooling.pool(table(combiner), bag, ROWS), want, rtol=1e-15)


@pytest.mark.parametrize(
    ("combiner", "weights", "want"),
    [
        ("mean", [1, -1], [0, 0]),
        ("mean", [0, 0], [0, 0]),
        ("sqrtn", [0, 0], [0, 0]),
        ("sum", [1, -1], [-1, -10]),  # sum has no divisor
        ("sqrtn", [1, -1], [-1 / np.sqrt(2), -10 / np.sqrt(2)]),
    ],
)
def test_a_divisor_of_zero_gives_zeros_as_the_server_does(
    combiner: str, weights: list[float], want: list[float]
) -> None:
    bag = pooling.Bags(np.zeros(2, np.int64), np.array([2]), np.array(weights, np.float64))
    np.testing.assert_allclose(pooling.pool(table(combiner), bag, ROWS[:2]), [want], rtol=1e-15)


@pytest.mark.parametrize(
    ("policy", "want"), [("clamp", [0, 3, 3, 2]), ("zero", [-1, -1, 3, 2]), ("hash-mod", [3, 1, 3, 2])]
)
def test_policies_for_ids_outside(policy: str, want: list[int]) -> None:
    assert pooling.resolve(table(policy=policy), np.array([-1, 5, 3, 2])).tolist() == want


def test_reject_names_the_id() -> None:
    with pytest.raises(BundleError, match=r'table "t": position 1: got id 4, want \[0, 4\)'):
        pooling.resolve(table(), np.array([3, 4]))


def model(*tables: manifest.Table) -> manifest.Manifest:
    program = manifest.Program("w", (), ())
    return manifest.Manifest("m", "1", tables, (), (), (), program, 1, (1,))


def test_all_forms_of_a_request_are_the_same_bags() -> None:
    two = model(table(hotness=2, name="a"), table(hotness=1, name="b"))
    a, b = np.array([[1, 2], [3, 0]]), np.array([[2], [1]])
    separate = pooling.bags(two, {"a": a, "b": b.astype(np.int32)})
    packed = pooling.bags(two, {"ids": np.concatenate([a, b], axis=1)})
    ragged = pooling.bags(
        two,
        {
            "a.values": a.reshape(-1), "a.lengths": np.array([2, 2], np.int32),
            "b.values": b.reshape(-1), "b.offsets": np.array([0, 1, 2]),
        },
    )  # fmt: skip
    for got in (packed, ragged):
        for name in ("a", "b"):
            np.testing.assert_array_equal(got[name].values, separate[name].values)
            np.testing.assert_array_equal(got[name].lengths, separate[name].lengths)


@pytest.mark.parametrize(
    "request_", [{}, {"t.values": np.arange(3)}, {"t.values": np.arange(3), "t.lengths": np.array([1, 1])}]
)
def test_incomplete_bags_are_refused(request_: pooling.Request) -> None:
    with pytest.raises(BundleError, match='"t'):
        pooling.bags(model(table()), request_)
