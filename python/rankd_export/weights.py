"""The parameters of a model as a flat, named list: what ``weights.safetensors`` holds and ``main`` takes."""

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from jax import tree_util
from numpy.typing import NDArray

from rankd_export.errors import BundleError

# Types that safetensors, XLA and the server all have.
_DTYPES = tuple(
    np.dtype(t)
    for t in (
        np.float32, np.float16, ml_dtypes.bfloat16, np.bool_,
        np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32,
    )
)  # fmt: skip


@dataclass(frozen=True)
class Weights:
    """The leaves of the parameter tree with their names, in the order of the tree."""

    names: tuple[str, ...]
    arrays: tuple[NDArray[Any], ...]
    tree: Any

    @property
    def params(self) -> Any:
        """The parameter tree, its leaves NumPy arrays."""
        return tree_util.tree_unflatten(self.tree, self.arrays)


def flatten(params: Any) -> Weights:
    """Names every leaf by its path: ``{"top": [{"w": ...}]}`` gives ``top.0.w``.

    The order is that of JAX (dictionaries by sorted key), so the same tree gives the same names and order in every
    process. Python numbers become float32 or int32 scalars. Raises a BundleError for types that no program can take.
    """
    leaves, tree = tree_util.tree_flatten_with_path(params)
    names: list[str] = []
    arrays: list[NDArray[Any]] = []
    for path, leaf in leaves:
        name = tree_util.keystr(path, simple=True, separator=".") or "param"
        names.append(name)
        arrays.append(_array(name, leaf))
    repeated = {n for n in names if names.count(n) > 1}
    if repeated:
        raise BundleError(f"name weights: got {sorted(repeated)} twice, want paths that differ as text")
    return Weights(tuple(names), tuple(arrays), tree)


def _array(name: str, leaf: Any) -> NDArray[Any]:
    if re.search(r"[\x00-\x1f]", name):
        raise BundleError(f"name weights: got {name!r}, want keys without control characters")
    # Said here and not left to JAX, whose own answer depends on its 64-bit switch.
    scalar = {bool: np.bool_, int: np.int32, float: np.float32}.get(type(leaf))
    try:
        array = np.asarray(leaf, scalar)
    except (TypeError, ValueError, OverflowError) as error:
        raise BundleError(f'read weight "{name}": got {type(leaf).__name__}, want an array: {error}') from error
    if array.dtype not in _DTYPES:
        raise BundleError(
            f'read weight "{name}": got {array.dtype}, want one of {", ".join(map(str, _DTYPES))}; '
            "narrow it yourself, for example with .astype(np.float32)"
        )
    if array.size == 0:
        raise BundleError(f'read weight "{name}": got shape {list(array.shape)}, want at least one element')
    return np.ascontiguousarray(array).reshape(array.shape)
