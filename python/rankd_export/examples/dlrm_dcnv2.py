"""DLRM-DCNv2 (the recommendation model of MLPerf) with seeded random weights, written in JAX and exported.

python -m rankd_export.examples.dlrm_dcnv2 --max-vocab 1000 --out DIR
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rankd_export import Dense, Golden, Manifest, Table, export_bundle

DIM = 128
DENSE_WIDTH = 13
BOTTOM = (512, 256, DIM)
CROSS_LAYERS, CROSS_RANK = 3, 512
TOP = (1024, 1024, 512, 256, 1)

# Ids a bag, and rows of the Criteo tables at full scale.
HOTS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip

Array = NDArray[np.float32]


def score(params: Any, dense: Mapping[str, jax.Array], pooled: Mapping[str, jax.Array]) -> jax.Array:
    """The network: bottom MLP, low-rank cross layers, top MLP, sigmoid. Returns ``[B]``."""
    bottom = dense["dense"]
    for layer in params["bottom"]:
        bottom = jax.nn.relu(bottom @ layer["weight"] + layer["bias"])
    x0 = jnp.concatenate([bottom, *(pooled[name] for name in sorted(pooled))], axis=1)
    x = x0
    for layer in params["cross"]:
        x = x0 * ((x @ layer["v"]) @ layer["w"] + layer["bias"]) + x
    *hidden, last = params["top"]
    for layer in hidden:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return jax.nn.sigmoid(x @ last["weight"] + last["bias"])[:, 0]


def init(seed: int, tables: int = len(HOTS)) -> dict[str, list[dict[str, Array]]]:
    """Random parameters for a model of so many tables: scaled so that scores spread between 0 and 1."""
    rng = np.random.default_rng((seed, 0))
    width = DIM * (tables + 1)

    def normal(rows: int, columns: int, deviation: float) -> Array:
        return rng.standard_normal((rows, columns), np.float32) * np.float32(deviation)

    def mlp(inputs: int, sizes: Sequence[int]) -> list[dict[str, Array]]:
        layers = []
        for size in sizes:
            weight = normal(inputs, size, np.sqrt(2 / inputs))
            layers.append({"weight": weight, "bias": normal(1, size, 0.1)[0]})
            inputs = size
        return layers

    cross = [
        {
            "v": normal(width, CROSS_RANK, np.sqrt(0.5 / width)),
            "w": normal(CROSS_RANK, width, np.sqrt(0.5 / CROSS_RANK)),
            "bias": normal(1, width, 0.1)[0],
        }
        for _ in range(CROSS_LAYERS)
    ]
    return {"bottom": mlp(DENSE_WIDTH, BOTTOM), "cross": cross, "top": mlp(width, TOP)}


def make_tables(seed: int, max_vocab: int) -> list[Table]:
    """Random tables ``t00`` .. ``t25`` of at most ``max_vocab`` rows; a pooled bag has about unit variance."""
    tables = []
    for index, (rows, hotness) in enumerate(zip(ROWS, HOTS, strict=True)):
        rng = np.random.default_rng((seed, 1, index))
        array = rng.standard_normal((min(rows, max_vocab), DIM), np.float32)
        array *= np.float32(1 / np.sqrt(hotness))
        tables.append(Table(f"t{index:02d}", array, hotness))
    return tables


def export(
    out: Path, *, max_vocab: int = 1000, max_batch: int = 4096, seed: int = 0, version: int = 1, golden_rows: int = 16
) -> Manifest:
    """Exports the model to the new directory ``out``."""
    return export_bundle(
        out,
        score,
        init(seed),
        tables=make_tables(seed, max_vocab),
        dense=[Dense("dense", DENSE_WIDTH)],
        max_batch=max_batch,
        name="dlrm-dcnv2",
        version=version,
        golden=Golden(rows=golden_rows, seed=seed),
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Export a seeded DLRM-DCNv2.")
    parser.add_argument("--out", type=Path, required=True, help="new directory for the bundle")
    parser.add_argument("--max-vocab", type=int, default=1000, help="rows of the largest table (default: %(default)s)")
    parser.add_argument("--max-batch", type=int, default=4096, help="rows of the largest bucket (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and tables (default: %(default)s)")
    parser.add_argument("--version", type=int, default=1, help="model version (default: %(default)s)")
    arguments = parser.parse_args()
    manifest = export(
        arguments.out,
        max_vocab=arguments.max_vocab,
        max_batch=arguments.max_batch,
        seed=arguments.seed,
        version=arguments.version,
    )
    rows = sum(t.rows for t in manifest.tables)
    print(f"wrote {arguments.out}: {len(manifest.tables)} tables, {rows} rows, buckets {list(manifest.buckets)}")


if __name__ == "__main__":
    main()
