"""DLRM-DCNv2 once more, in NumPy and float64, from the weights of a bundle: the answer that others are held against.

It reads bundles of the demo that the server makes and of the JAX example alike (both use these weight names) and shares
no code with either:

    z     = relu layers bottom.0, bottom.1, ... of the dense features
    x0    = z, then the pooled vectors in the order of the tables
    x     = x0, then for each cross layer k: x0 * ((x V) W + b) + x, with cross.k.v, cross.k.w and cross.k.bias
    score = sigmoid of the layers top.0, top.1, ... of x, relu between them

    python -m rankd_export.dcnv2 DIR

compares the golden scores of a bundle with this pass and with ``jax.jit`` of the example's network.
"""

import argparse
import itertools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from rankd_export.examples import dlrm_dcnv2
from rankd_export.pooling import Request
from rankd_export.reference import Bundle

Weights = Mapping[str, NDArray[Any]]


def scores64(bundle: Bundle, request: Request) -> NDArray[np.float64]:
    """Scores ``[B]`` of a request, every operation in float64."""
    weights = {name: array.astype(np.float64) for name, array in bundle.weights().items()}
    (dense,) = bundle.dense(request).values()
    z = dense.astype(np.float64)
    for layer in _layers(weights, "bottom", "weight"):
        z = np.maximum(z @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"], 0)
    x0 = np.concatenate([z, *bundle.pooled(request).values()], axis=1)
    x = x0
    for layer in _layers(weights, "cross", "v"):
        low = x @ weights[f"{layer}.v"]
        x = x0 * (low @ weights[f"{layer}.w"] + weights[f"{layer}.bias"]) + x
    top = _layers(weights, "top", "weight")
    for layer in top[:-1]:
        x = np.maximum(x @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"], 0)
    logit = x @ weights[f"{top[-1]}.weight"] + weights[f"{top[-1]}.bias"]
    return np.asarray(1 / (1 + np.exp(-logit[:, 0])))


def scores_jit(bundle: Bundle, request: Request) -> NDArray[np.float32]:
    """Scores ``[B]`` of a request by ``jax.jit`` of the example's network, bags pooled in float64 and rounded once."""
    return np.asarray(jax.jit(dlrm_dcnv2.score)(*arguments(bundle, request)))


def arguments(bundle: Bundle, request: Request) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The arguments of the example's network for a request: parameters, dense inputs, pooled vectors (float32)."""
    (dense,) = bundle.dense(request).values()
    # The example takes its tables in the order of their names, a bundle has them in the order of the manifest.
    pooled = {f"t{i:02d}": p.astype(np.float32) for i, p in enumerate(bundle.pooled(request).values())}
    return nest(bundle.weights()), {"dense": dense.astype(np.float32)}, pooled


def nest(weights: Weights) -> dict[str, list[dict[str, NDArray[Any]]]]:
    """The parameter tree of the example from flat names: ``top.0.bias`` becomes ``tree["top"][0]["bias"]``."""
    tree: dict[str, list[dict[str, NDArray[Any]]]] = {}
    for group, part in (("bottom", "weight"), ("cross", "v"), ("top", "weight")):
        tree[group] = [
            {n.removeprefix(f"{layer}."): a for n, a in weights.items() if n.startswith(f"{layer}.")}
            for layer in _layers(weights, group, part)
        ]
    return tree


def _layers(weights: Weights, group: str, part: str) -> list[str]:
    names = (f"{group}.{k}" for k in itertools.count())
    return list(itertools.takewhile(lambda name: f"{name}.{part}" in weights, names))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Compare a DLRM-DCNv2 bundle's golden scores with float64 and jax.jit."
    )
    parser.add_argument("bundle", help="directory of the bundle")
    bundle = Bundle.open(parser.parse_args().bundle)
    request, expected = bundle.golden()
    (golden,) = (e.reshape(-1) for e in expected.values())
    print(f"{len(golden)} golden rows, scores {golden.min():.4f} to {golden.max():.4f}")
    print(f"largest difference from float64: {np.abs(golden - scores64(bundle, request)).max():.3g}")
    print(f"largest difference from jax.jit: {np.abs(golden - scores_jit(bundle, request)).max():.3g}")


if __name__ == "__main__":
    main()
