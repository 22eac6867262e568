"""Reads a model bundle: the manifest, where the numbers of a tensor lie, and the golden request."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


class BundleError(Exception):
    """The bundle is damaged, or of a kind that these servers do not serve."""


@dataclass(frozen=True)
class Table:
    """An embedding table of float32 ``[rows, dim]`` with ``hotness`` ids a bag, summed."""

    name: str
    rows: int
    hotness: int
    file: str
    tensor: str


@dataclass(frozen=True)
class Bundle:
    """What these servers need to know of a model.

    A packed row is ``row_floats`` float32: the pooled vectors, one after the other from the start, and the dense
    features from ``dense_column`` on. What lies between and behind them is never read.
    """

    directory: Path
    name: str
    version: str
    tables: tuple[Table, ...]
    dim: int
    dense: str
    dense_width: int
    dense_column: int
    row_floats: int
    output: str
    max_batch: int
    weights: str

    @property
    def ids_per_row(self) -> int:
        """The number of ids that one example brings."""
        return sum(t.hotness for t in self.tables)

    @property
    def pooled_floats(self) -> int:
        """The length of all pooled vectors of one row."""
        return len(self.tables) * self.dim

    @property
    def total_rows(self) -> int:
        """The number of rows of all tables."""
        return sum(t.rows for t in self.tables)

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """Reads the manifest. Raises BundleError if it describes anything but summed float32 bags of fixed hotness."""
        path = Path(directory)
        try:
            manifest = json.loads((path / "manifest.json").read_text())
        except (OSError, ValueError) as error:
            raise BundleError(f"read manifest of {str(directory)!r}: {error}") from error
        tables = manifest["tables"]
        dim = tables[0]["dim"]
        for i, t in enumerate(tables):
            want = {"dim": dim, "combiner": "sum", "id_policy": "reject", "row_dtype": "float32"}
            got = {k: t[k] for k in want}
            if got != want or t["hotness"] < 1 or t["slot"] != {"array": 0, "offset": 4 * dim * i}:
                raise BundleError(
                    f'table "{t["name"]}": got {got}, hotness {t["hotness"]}, slot {t["slot"]}; '
                    f"want {want}, a fixed hotness, and slot {i} of one packed array"
                )
        (packed,) = _one("packed array", manifest["packed"])
        (dense,) = _one("dense input", manifest["dense"])
        (output,) = _one("output", manifest["outputs"])
        if output["width"] != 0:
            raise BundleError(f'output "{output["name"]}": got width {output["width"]}, want 0 (one score a row)')
        return cls(
            directory=path,
            name=manifest["name"],
            version=manifest["version"],
            tables=tuple(Table(t["name"], t["rows"], t["hotness"], t["file"], t["tensor"]) for t in tables),
            dim=dim,
            dense=dense["name"],
            dense_width=dense["width"],
            dense_column=dense["slot"]["offset"] // 4,
            row_floats=packed["stride"] // 4,
            output=output["name"],
            max_batch=manifest["max_batch"],
            weights=manifest["program"]["weights"],
        )

    def golden(self) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
        """The golden request by input name, and its reference scores."""
        tensors = read_tensors(self.directory / "golden" / "golden.safetensors")
        expected = tensors.pop(f"expect.{self.output}")
        return tensors, expected


def _one(what: str, items: list[Any]) -> list[Any]:
    if len(items) != 1:
        raise BundleError(f"{what}: got {len(items)}, want 1")
    return items


@dataclass(frozen=True)
class Span:
    """Where a tensor lies in a safetensors file: ``offset`` in bytes from the start of the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    size: int


def tensor_spans(path: Path) -> dict[str, Span]:
    """Reads the header of a safetensors file."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
    except (OSError, ValueError, struct.error) as error:
        raise BundleError(f"read tensors of {str(path)!r}: {error}") from error
    spans = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        span = Span(_DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + length + start, end - start)
        if int(np.prod(span.shape, dtype=np.int64)) * span.dtype.itemsize != span.size:
            raise BundleError(f'tensor "{name}" of {str(path)!r}: got {span.size} bytes for shape {span.shape}')
        spans[name] = span
    return spans


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Reads all tensors of a file into memory of their own."""
    return {
        name: np.fromfile(path, span.dtype, count=span.size // span.dtype.itemsize, offset=span.offset).reshape(
            span.shape
        )
        for name, span in tensor_spans(path).items()
    }
