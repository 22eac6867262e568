"""Which functions can be served."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest

from rankd_export import BundleError
from rankd_export.program import MAX_PROGRAM_BYTES

BIG = np.arange(MAX_PROGRAM_BYTES // 8, dtype=np.float32)


def first(fn: Any) -> Any:
    """A function of the dense input alone."""
    return lambda params, dense, pooled: fn(dense["dense"])


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (first(lambda x: x.sum()), r"got float32 \[\] for a batch of 7, want \[B\] or \[B, k\]"),
        (first(lambda x: x[:, :, None]), r"got float32 \[7, 13, 1\]"),
        (first(lambda x: x.T), r"got float32 \[13, 7\]"),
        (first(lambda x: x[:1]), r"got float32 \[1, 13\]"),
        (first(lambda x: jnp.ones(7)), r"got float32 \[7\] for a batch of 11"),
        (first(lambda x: x @ x.T), "width changes with the batch size"),
        (first(lambda x: x[:, :0]), "at least one column"),
        (first(lambda x: x.argmax(axis=1)), r"got int32 \[7\], want a float type"),
        (first(lambda x: (x, x)), "got tuple"),
        (first(lambda x: {}), "got outputs"),
        (first(lambda x: {"a.b": x}), 'output "a.b"'),
    ],
)
def test_outputs_of_other_shapes_are_refused(tmp_path: Path, fn: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        models.export(tmp_path / "b", fn=fn)


@pytest.mark.parametrize(
    ("fn", "how"),
    [
        (first(lambda x: x[:, 0] - x.mean()), "with the rows in another order|with NaN rows"),
        (first(lambda x: x[:, 0] / x.shape[0]), "with NaN rows"),
        (first(lambda x: jnp.cumsum(x[:, 0])), "with the rows in another order"),
        (first(lambda x: x[:, 0] + jnp.arange(x.shape[0])), "with the rows in another order"),
        (first(lambda x: jax.nn.softmax(x[:, 0])), "with NaN rows"),
        (first(lambda x: x[:, 0] * jnp.isfinite(x).all()), "with NaN rows"),
        (first(lambda x: jnp.log(-jnp.abs(x[:, 0]))), "want finite"),
    ],
)
def test_rows_that_depend_on_others_are_refused(tmp_path: Path, fn: Any, how: str) -> None:
    with pytest.raises(BundleError, match=rf"check rows: .*({how})"):
        models.export(tmp_path / "b", fn=fn)
    assert list(tmp_path.iterdir()) == []


def test_a_callback_is_refused(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x[0, 0])
        return x[:, 0]

    with pytest.raises(BundleError, match=r"lower program|check program"):
        models.export(tmp_path / "b", fn=first(fn))


def test_a_call_into_jaxlib_is_refused(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        square = x[:, :4, None] * x[:, None, :4] + 10 * jnp.eye(4)
        return jnp.linalg.cholesky(square)[:, 0, 0]

    with pytest.raises(BundleError, match="calls lapack_spotrf_ffi, which live in jaxlib"):
        models.export(tmp_path / "b", fn=first(fn), platform="cpu")


def test_a_large_array_in_the_closure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="pass large arrays through params"):
        models.export(tmp_path / "b", fn=first(lambda x: (x[:, :1] * BIG).sum(axis=1)))


def test_a_small_array_in_the_closure_is_part_of_the_program(tmp_path: Path) -> None:
    mean = np.arange(13, dtype=np.float32)
    models.export(tmp_path / "b", fn=first(lambda x: (x - jnp.asarray(mean))[:, 0]))


def test_a_function_that_differs_by_platform_needs_a_choice(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.platform_dependent(x[:, 0], cpu=lambda v: v + 1, default=lambda v: v + 2)

    with pytest.raises(BundleError, match=r"cpu and cuda differ at batch 1.*name one with platform="):
        models.export(tmp_path / "neutral", fn=first(fn))
    models.export(tmp_path / "cpu", fn=first(fn), platform="cpu")


def test_a_model_without_weights_or_dense_inputs(tmp_path: Path) -> None:
    manifest = models.export(tmp_path / "b", fn=lambda p, d, t: t["user"].sum(axis=1), params={}, dense=[])
    assert [i.packed for i in manifest.program.inputs] == [0]
    assert [o.name for o in manifest.outputs] == ["score"]
