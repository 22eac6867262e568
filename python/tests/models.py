"""A small model with every kind of input and output, for tests."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from rankd_export import Dense, Golden, Manifest, Table, export_bundle

NAME = "toy"


def tables(narrow: bool = False) -> list[Table]:
    """The tables; narrow: two of them with rows of 16 bits."""
    rng = np.random.default_rng(1)

    def array(rows: int, dim: int) -> Any:
        return rng.standard_normal((rows, dim), np.float32)

    user, clicks = (np.float16, ml_dtypes.bfloat16) if narrow else (np.float32, np.float32)
    # Not in the order of their names, and with a dim (5) that is no whole number of cache lines.
    return [
        Table("user", array(100, 8).astype(user), hotness=3),
        Table("clicks", array(50, 16).astype(clicks), hotness=0, combiner="mean"),
        Table("ads", array(20, 5), hotness=2, combiner="sqrtn", id_policy="clamp"),
    ]


DENSE = [Dense("dense", 13), Dense("age", 1)]
WIDTH = 8 + 16 + 5 + 13 + 1


def params() -> dict[str, Any]:
    rng = np.random.default_rng(2)

    def weight(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    return {
        "hidden": {"weight": weight(WIDTH, 32), "bias": np.zeros(32, np.float32)},
        "heads": [weight(32, 1), weight(32, 3)],
        "unused": np.ones(3, np.float32),
    }


def score(params: Any, dense: dict[str, jax.Array], pooled: dict[str, jax.Array]) -> dict[str, jax.Array]:
    x = jnp.concatenate([*dense.values(), *pooled.values()], axis=1)
    x = jax.nn.gelu(x @ params["hidden"]["weight"] + params["hidden"]["bias"])
    first, second = params["heads"]
    return {"ctr": jax.nn.sigmoid(x @ first)[:, 0], "rank": jax.nn.softmax(x @ second, axis=1)}


def export(path: Path, **changes: Any) -> Manifest:
    """Exports the model; keyword arguments replace those of export_bundle, and ``fn`` and ``params``."""
    arguments: dict[str, Any] = {
        "fn": score,
        "params": params(),
        "tables": tables(),
        "dense": DENSE,
        "max_batch": 32,
        "name": NAME,
        "version": 3,
        "golden": Golden(rows=24, weighted=["clicks"]),
    }
    arguments.update(changes)
    return export_bundle(path, arguments.pop("fn"), arguments.pop("params"), **arguments)
