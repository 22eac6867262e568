"""Requests as they arrive: both forms of ids, and every refusal."""

from typing import Any

import numpy as np
import pytest
from conftest import by_table, draw
from numpy.typing import NDArray

from rankd_bench_py._generated import prediction_pb2 as pb
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.wire import Refusal, Wire

TYPES = {"int32": pb.DTYPE_INT32, "int64": pb.DTYPE_INT64, "float32": pb.DTYPE_FLOAT32, "float64": pb.DTYPE_FLOAT64}


def tensor(array: NDArray[Any]) -> pb.HostBufferProto:
    return pb.HostBufferProto(dtype=TYPES[array.dtype.name], shape=array.shape, data=array.tobytes())


def packed(bundle: Bundle, ids: NDArray[Any], dense: NDArray[Any]) -> pb.PredictRequest:
    return pb.PredictRequest(model_name=bundle.name, inputs={"ids": tensor(ids), bundle.dense: tensor(dense)})


def separate(bundle: Bundle, ids: NDArray[Any], dense: NDArray[Any]) -> pb.PredictRequest:
    inputs = {name: tensor(part) for name, part in by_table(bundle, ids).items()}
    return pb.PredictRequest(model_name=bundle.name, inputs={**inputs, bundle.dense: tensor(dense)})


@pytest.mark.parametrize("form", [packed, separate])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_decodes_both_forms(bundle: Bundle, form: Any, dtype: type) -> None:
    ids, dense = draw(bundle, 3, seed=2)
    request = pb.PredictRequest.FromString(form(bundle, ids.astype(dtype), dense).SerializeToString())
    examples = Wire(bundle).decode(request)
    assert examples.rows == 3
    assert np.array_equal(np.frombuffer(examples.ids, examples.ids_dtype).reshape(3, -1), ids)
    assert examples.dense == dense.tobytes()


def one_row(request: pb.PredictRequest, *names: str) -> pb.PredictRequest:
    """The request with the first row alone of some of its inputs."""
    for name in names:
        one = request.inputs[name]
        one.data = one.data[: len(one.data) // one.shape[0]]
        one.shape[0] = 1
    return request


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_decodes_inputs_of_one_row(bundle: Bundle, dtype: type) -> None:
    ids, dense = draw(bundle, 3, seed=2)
    ids = ids.astype(dtype)
    parts = by_table(bundle, ids)
    users = [f"cat_{t}" for t in range(13)]
    for names in (users, [*users, "dense"], ["cat_3", "cat_20"], [t.name for t in bundle.tables]):
        block = Wire(bundle).decode(one_row(separate(bundle, ids, dense), *names)).block
        assert block is not None
        assert block.once is not None
        assert block.rows == 3
        assert block.once.tables == tuple(t.name in names for t in bundle.tables)
        want = np.concatenate([parts[n][:1] for n in parts if n in names], axis=1)
        assert np.array_equal(block.once.ids, want)
        rest = [p for n, p in parts.items() if n not in names]
        assert np.array_equal(block.ids, np.concatenate(rest, axis=1) if rest else np.empty((3, 0)))
        assert np.array_equal(block.dense, dense[:1] if "dense" in names else dense)


@pytest.mark.parametrize("form", [packed, separate])
def test_decodes_dense_features_of_one_row(bundle: Bundle, form: Any) -> None:
    ids, dense = draw(bundle, 3, seed=2)
    block = Wire(bundle).decode(one_row(form(bundle, ids, dense), "dense")).block
    assert block is not None
    assert block.once is None
    assert np.array_equal(block.ids, ids)
    assert np.array_equal(block.dense, dense[:1])


def test_decodes_packed_ids_of_one_row(bundle: Bundle) -> None:
    ids, dense = draw(bundle, 3, seed=2)
    block = Wire(bundle).decode(one_row(packed(bundle, ids, dense), "ids")).block
    assert block is not None
    assert block.once is not None
    assert np.array_equal(block.once.ids, ids[:1])
    assert block.ids.shape == (3, 0)
    single = Wire(bundle).decode(one_row(packed(bundle, ids, dense), "ids", "dense"))
    assert single.block is None
    assert single.rows == 1


def test_refuses_numbers_of_rows_that_do_not_fit(bundle: Bundle) -> None:
    three, two = draw(bundle, 3, seed=2), draw(bundle, 2, seed=2)
    wire = Wire(bundle)
    for form in (packed, separate):
        with pytest.raises(Refusal, match='input "dense": got 2 rows, want 1 or 3'):
            wire.decode(form(bundle, three[0], two[1]))
    mixed = one_row(separate(bundle, *three), "cat_0", "dense")
    mixed.inputs["cat_5"].CopyFrom(separate(bundle, *two).inputs["cat_5"])
    with pytest.raises(Refusal, match=r'input "cat_5": got shape \[2, 1\], 8 bytes, want \[3, 1\]'):
        wire.decode(mixed)
    large = one_row(separate(bundle, *three), "dense")
    large.inputs["cat_0"].shape[0] = 65
    with pytest.raises(Refusal, match="got 65 rows, want at most 64"):
        wire.decode(large)


def test_encodes_scores(bundle: Bundle) -> None:
    scores = np.array([0.25, 0.5], np.float32)
    response = Wire(bundle).encode(pb.PredictRequest(request_id="r7"), 2, scores.tobytes())
    assert (response.model_name, response.model_version, response.request_id) == (bundle.name, bundle.version, "r7")
    (output,) = response.outputs.values()
    assert (output.dtype, list(output.shape), output.data) == (pb.DTYPE_FLOAT32, [2], scores.tobytes())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: setattr(r, "model_name", "other"), 'model: got "other"'),
        (lambda r: setattr(r, "model_version", "9"), 'version "9"'),
        (lambda r: r.inputs.pop("dense"), 'input "dense": missing'),
        (lambda r: r.inputs.pop("ids"), 'input "cat_0": missing'),
        (lambda r: r.inputs["dense"].shape.__setitem__(1, 12), "want \\[B, 13\\]"),
        (lambda r: r.inputs["dense"].shape.__setitem__(0, -2), "got -2 rows"),
        (lambda r: r.inputs["dense"].shape.__setitem__(0, 65), "got 65 rows, want 1 to 64"),
        (lambda r: setattr(r.inputs["dense"], "data", b"123"), "3 bytes"),
        (lambda r: setattr(r.inputs["dense"], "dtype", pb.DTYPE_FLOAT64), "want float32"),
        (lambda r: setattr(r.inputs["ids"], "dtype", pb.DTYPE_FLOAT32), "want int32 or int64"),
        (lambda r: setattr(r.inputs["ids"], "dtype", pb.DTYPE_INT64), "want \\[2, 214\\], 3424 bytes"),
        (lambda r: r.inputs["ids"].shape.__setitem__(1, 213), "got shape \\[2, 213\\]"),
    ],
)
def test_refuses(bundle: Bundle, change: Any, words: str) -> None:
    request = packed(bundle, *draw(bundle, 2, seed=3))
    change(request)
    with pytest.raises(Refusal, match=words):
        Wire(bundle).decode(request)


def test_refuses_an_unknown_input(bundle: Bundle) -> None:
    request = separate(bundle, *draw(bundle, 2, seed=3))
    request.inputs["more"].CopyFrom(request.inputs["dense"])
    with pytest.raises(Refusal, match="got unknown \\['more'\\]"):
        Wire(bundle).decode(request)
