"""A small bundle, made by rankd, and what tests compare with: pooling and scores without the servers' code."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle, read_tensors

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A DLRM-DCNv2 with small tables and a small network, at most 64 rows a batch."""
    binary = Path(os.environ.get("RANKD_BIN", ROOT / ".build" / "bin" / "rankd"))
    if not binary.exists():
        text = f"{binary} is missing: run make build, or set RANKD_BIN"
        if os.environ.get("RANKD_REQUIRE_SERVER"):
            pytest.fail(text)
        pytest.skip(text)
    path = tmp_path_factory.mktemp("model") / "demo"
    command = [binary, "model", "create-demo", path, "--small", "--max-vocab=500", "--max-batch=64", "--golden=48"]
    subprocess.run(command, check=True, capture_output=True)
    return Bundle.open(path)


@pytest.fixture(scope="session")
def tables(bundle: Bundle) -> list[NDArray[np.float32]]:
    return [read_tensors(bundle.directory / t.file)[t.tensor] for t in bundle.tables]


def draw(bundle: Bundle, rows: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Random packed ids and dense features."""
    rng = np.random.default_rng(seed)
    ids = [rng.integers(0, t.rows, (rows, t.hotness)) for t in bundle.tables]
    return np.concatenate(ids, axis=1).astype(np.int32), rng.random((rows, bundle.dense_width), np.float32)


def by_table(bundle: Bundle, ids: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Packed ids as an array a table."""
    parts, at = {}, 0
    for table in bundle.tables:
        parts[table.name] = ids[:, at : at + table.hotness]
        at += table.hotness
    return parts


def pooled_in_order(
    bundle: Bundle, tables: list[NDArray[np.float32]], ids: Mapping[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """Pooled vectors ``[B, tables, dim]``: float32 sums in the order of the ids."""
    pooled = []
    for table, rows in zip(bundle.tables, tables, strict=True):
        total = np.zeros((len(ids[table.name]), bundle.dim), np.float32)
        for k in range(table.hotness):
            total = total + rows[ids[table.name][:, k]]
        pooled.append(total)
    return np.stack(pooled, axis=1)


def same_sums(got: NDArray[np.float32], want: NDArray[np.float32]) -> bool:
    """Whether float32 sums are the same but for the order in which they were added up.

    A product with a matrix adds in an order that the BLAS chooses: with AVX-512 that of the ids, elsewhere another.
    """
    return got.shape == want.shape and bool(np.allclose(got, want, rtol=0, atol=1e-5))


def same_scores(got: NDArray[np.float32], want: NDArray[np.float32]) -> bool:
    """Whether simulated scores are those of the same sums. They are fractions, so 0 and 1 are neighbours."""
    apart = np.abs(got.astype(np.float64) - want)
    return got.shape == want.shape and bool((np.minimum(apart, 1 - apart) <= 1e-5).all())


def sim_score(scalars: NDArray[np.float32]) -> float:
    """The simulated accelerator's score of a row's scalars, one after the other in Python's own arithmetic."""
    total = 0.0
    for s, value in enumerate(scalars.tolist()):
        k = (((2 * s + 1) * 0x9E3779B1) % 2**32) >> 8 | 1
        total += k / 2**24 * value
    return float(np.float32(total - np.floor(total)))


def sim_scores(
    bundle: Bundle, tables: list[NDArray[np.float32]], ids: Mapping[str, NDArray[Any]], dense: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The simulated accelerator's scores of requests."""
    pooled = pooled_in_order(bundle, tables, ids)
    scalars = np.concatenate([pooled[:, :, 0], dense], axis=1)
    return np.array([sim_score(row) for row in scalars], np.float32)
