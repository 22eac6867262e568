"""Golden requests: example rows with the scores that a server must give for them.

Ids are uniform, dense features standard normal, bags of ragged tables 0 to ``max_bag`` ids long, all from one seed.
The expected scores come from the function itself under ``jax.jit`` on this machine, fed with bags that were pooled
in float64 and rounded once: they test the lookup, the packing, the program and the device together. They do not test
whether the function is right; an independent forward pass (``rankd_export.dcnv2``) does that for the example.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_export import manifest as m
from rankd_export.errors import BundleError
from rankd_export.manifest import Manifest


@dataclass(frozen=True)
class Golden:
    """How many requests to draw, and how. Tables named in ``weighted`` (ragged ones) get weights from [0.5, 1.5)."""

    rows: int = 16
    seed: int = 0
    max_bag: int = 8
    weighted: Sequence[str] = ()


def draw(manifest: Manifest, golden: Golden) -> dict[str, NDArray[np.generic]]:
    """Draws the request: tensors as clients name them, ``golden.rows`` rows each."""
    if golden.rows < 1:
        raise BundleError(f"draw golden requests: got {golden.rows} rows, want at least 1")
    ragged = {t.name for t in manifest.tables if t.hotness == 0}
    if not set(golden.weighted) <= ragged:
        raise BundleError(f"draw golden requests: got weighted {list(golden.weighted)}, want names of {sorted(ragged)}")
    rng = np.random.default_rng(golden.seed)
    request: dict[str, NDArray[np.generic]] = {}
    for table in manifest.tables:
        if table.hotness:
            request[table.name] = rng.integers(0, table.rows, (golden.rows, table.hotness), np.int64)
            continue
        request.update(_ragged(rng, table, golden))
    for dense in manifest.dense:
        request[dense.name] = rng.standard_normal((golden.rows, dense.width), np.float32)
    return request


def _ragged(rng: np.random.Generator, table: m.Table, golden: Golden) -> dict[str, NDArray[np.generic]]:
    lengths = rng.integers(0, golden.max_bag + 1, golden.rows, np.int32)
    lengths[-1] = 0  # an empty bag is always among them
    count = int(lengths.sum())
    drawn: dict[str, NDArray[np.generic]] = {
        f"{table.name}.values": rng.integers(0, table.rows, count, np.int64),
        f"{table.name}.lengths": lengths,
    }
    if table.name in golden.weighted:
        drawn[f"{table.name}.weights"] = rng.uniform(0.5, 1.5, count).astype(np.float32)
    return drawn
