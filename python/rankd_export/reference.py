"""Reads a bundle, whoever made it, and computes what a server should answer without the server's code."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

from rankd_export import layout, pooling
from rankd_export.manifest import Manifest, Table


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk. Tables are read row by row, so their size does not matter."""

    directory: Path
    manifest: Manifest

    @classmethod
    def open(cls, directory: str | Path) -> "Bundle":
        """Reads and checks the manifest; files are read when they are needed."""
        path = Path(directory)
        return cls(path, Manifest.read(path))

    def weights(self) -> dict[str, NDArray[Any]]:
        """The dense weights by name."""
        return dict(load_file(self.directory / self.manifest.program.weights))

    def golden(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.float32]]]:
        """The golden request and its expected scores by output name."""
        tensors = load_file(self.directory / "golden" / "golden.safetensors")
        prefix = "expect."
        request = {n: t for n, t in tensors.items() if not n.startswith(prefix)}
        expected = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        return request, expected

    def rows(self, table: Table, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """The table's rows ``[len(ids), dim]`` in the order of ``ids``; zeros for -1."""
        unique, positions = np.unique(ids, return_inverse=True)
        found = np.zeros((len(unique), table.dim), np.float64)
        with safe_open(self.directory / table.file, framework="numpy") as file:
            tensor = file.get_slice(table.tensor)
            for i, row in enumerate(unique.tolist()):
                if row >= 0:
                    found[i] = _elements(tensor[row : row + 1][0], table)
        return found[positions]

    def pooled(self, request: pooling.Request) -> dict[str, NDArray[np.float64]]:
        """The pooled vectors ``[B, dim]`` of a request by table name, in float64, as the program is given them.

        Where it takes them as bfloat16 they are rounded, to float32 and then to that.
        """
        bags = pooling.bags(self.manifest, request)
        pooled: dict[str, NDArray[np.float64]] = {}
        for table in self.manifest.tables:
            bag = bags[table.name]
            ids = pooling.resolve(table, bag.values)
            vectors = pooling.pool(table, bag, self.rows(table, ids))
            dtype = self.manifest.packed[table.slot.array].dtype
            if dtype != "float32":
                vectors = vectors.astype(np.float32).astype(layout.DTYPES[dtype]).astype(np.float64)
            pooled[table.name] = vectors
        return pooled

    def dense(self, request: pooling.Request) -> dict[str, NDArray[Any]]:
        """The dense inputs of a request by name."""
        return {d.name: request[d.name] for d in self.manifest.dense}

    def packed(self, request: pooling.Request) -> tuple[NDArray[Any], ...]:
        """The packed arrays ``[B, width]`` that go to the device."""
        where = layout.Layout(
            pooled={t.name: layout.Slot(t.slot.offset, t.dim, t.slot.array) for t in self.manifest.tables},
            dense={d.name: layout.Slot(d.slot.offset, d.width, d.slot.array) for d in self.manifest.dense},
            arrays=tuple(layout.Array(p.dtype, p.stride) for p in self.manifest.packed),
        )
        return where.pack(self.dense(request), self.pooled(request))


def largest_error(got: Mapping[str, NDArray[Any]], want: Mapping[str, NDArray[Any]]) -> float:
    """The largest absolute difference between two sets of outputs; NaN if any score is."""
    return max(float(np.abs(np.asarray(got[n], np.float64) - want[n]).max()) for n in want)


def _elements(row: NDArray[Any], table: Table) -> NDArray[np.float64]:
    """The elements of a stored row. int8: bytes, then scale and bias as float32 (FBGEMM's fused 8-bit row)."""
    if table.row_dtype != "int8":
        return row.astype(np.float64)
    scale, bias = row[table.dim :].copy().view(np.float32).astype(np.float64)
    return np.asarray(row[: table.dim].astype(np.float64) * scale + bias)
