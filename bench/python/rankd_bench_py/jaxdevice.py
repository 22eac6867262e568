"""DLRM-DCNv2 under ``jax.jit`` on whatever device JAX finds."""

import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle, BundleError, read_tensors
from rankd_bench_py.device import DEPTH, Part, bucket, buckets
from rankd_bench_py.hugemem import Memory


def _layers(weights: dict[str, NDArray[Any]], name: str) -> list[tuple[NDArray[Any], ...]]:
    kinds = ("v", "w", "bias") if name == "cross" else ("weight", "bias")
    layers: list[tuple[NDArray[Any], ...]] = []
    while f"{name}.{len(layers)}.bias" in weights:
        layers.append(tuple(weights[f"{name}.{len(layers)}.{kind}"] for kind in kinds))
    if not layers:
        raise BundleError(f"weights: no layers {name}.0, want those of a DLRM-DCNv2")
    return layers


class JaxLaunch:
    """A batch that JAX computes."""

    end_ns: int | None = None

    def __init__(self, scores: jax.Array, count: int) -> None:
        """Only the first ``count`` scores belong to rows, the others to padding."""
        self._scores = scores
        self._count = count

    def result(self) -> NDArray[np.float32]:
        """Waits for JAX."""
        return np.asarray(self._scores)[: self._count]


class JaxDevice:
    """The model, compiled for every bucket before the first request."""

    def __init__(self, bundle: Bundle) -> None:
        """Uploads the weights and compiles."""
        weights = read_tensors(bundle.directory / bundle.weights)
        params = {name: _layers(weights, name) for name in ("bottom", "cross", "top")}
        self._params = jax.device_put(params)
        self._max = bundle.max_batch
        pooled, dense = bundle.pooled_floats, slice(bundle.dense_column, bundle.dense_column + bundle.dense_width)

        def forward(params: Any, packed: jax.Array) -> jax.Array:
            return _dcnv2(params, packed[:, dense], packed[:, :pooled])

        self._forward = jax.jit(forward)
        self.name = f"jax ({jax.devices()[0].device_kind})"
        # Parts that are not one run of rows are brought together here. DEPTH + 1: a buffer is used again only after the
        # launch before the last two has ended.
        size = self._max * bundle.row_floats
        self._staging = [
            Memory(4 * size).array(np.float32, 0, size).reshape(self._max, bundle.row_floats) for _ in range(DEPTH + 1)
        ]
        self._next = 0
        self._mu = threading.Lock()
        for rows in buckets(self._max):
            np.asarray(self._forward(self._params, self._staging[0][:rows]))

    def launch(self, parts: Sequence[Part]) -> JaxLaunch:
        """Starts a batch, padded to its bucket with whatever lies behind its rows. Threads may call it."""
        count = sum(p.count for p in parts)
        padded = bucket(count, self._max)
        part = parts[0]
        if len(parts) == 1 and part.first + padded <= len(part.array):
            return JaxLaunch(self._forward(self._params, part.array[part.first : part.first + padded]), count)
        with self._mu:
            staging = self._staging[self._next]
            self._next = (self._next + 1) % len(self._staging)
        at = 0
        for p in parts:
            staging[at : at + p.count] = p.rows
            at += p.count
        return JaxLaunch(self._forward(self._params, staging[:padded]), count)


def _dcnv2(params: Any, dense: jax.Array, pooled: jax.Array) -> jax.Array:
    """Bottom network, concatenation, low-rank cross layers ``x0 * (W(Vx) + b) + x``, top network, sigmoid: ``[B]``."""

    x = dense
    for weight, bias in params["bottom"]:
        x = jax.nn.relu(x @ weight + bias)
    x0 = jnp.concatenate([x, pooled], axis=1)
    x = x0
    for v, w, bias in params["cross"]:
        x = x0 * (x @ v @ w + bias) + x
    top = params["top"]
    for weight, bias in top[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = top[-1]
    return jax.nn.sigmoid(x @ weight + bias)[:, 0]
