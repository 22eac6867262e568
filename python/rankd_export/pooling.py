"""Bags of ids, and how they are pooled: a plain float64 statement of what the server computes.

A bag is pooled as ``sum w*x`` (``sum``), divided by ``sum w`` (``mean``) or by ``sqrt(sum w*w)`` (``sqrtn``), where x
are table rows and w the weights of the ids, 1 if the request has none. An empty bag is zeros, and so is
one whose divisor is zero. An id outside the table reads what the table's policy says; under ``zero`` it reads a row of
zeros and still counts in the divisor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_export.errors import BundleError
from rankd_export.manifest import Manifest, Table

Request = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Bags:
    """The ids of one table for B rows: int64 ``values [nnz]``, int64 ``lengths [B]``, ``weights [nnz]`` or None."""

    values: NDArray[np.int64]
    lengths: NDArray[np.int64]
    weights: NDArray[np.float64] | None


def bags(manifest: Manifest, request: Request) -> dict[str, Bags]:
    """Reads a request's sparse inputs in any of the forms that the server takes, by table name.

    Forms: ``t`` ``[B, hot]``; ``t.values`` ``[nnz]`` with ``t.lengths`` ``[B]`` or ``t.offsets`` ``[B+1]`` and perhaps
    ``t.weights`` ``[nnz]``; ``ids`` ``[B, sum of hots]`` for a model whose tables are all of fixed hotness.
    """
    found: dict[str, Bags] = {}
    column = 0
    for table in manifest.tables:
        if "ids" in request:
            packed = request["ids"][:, column : column + table.hotness]
            found[table.name] = _fixed(packed)
            column += table.hotness
        elif table.name in request:
            found[table.name] = _fixed(request[table.name])
        else:
            found[table.name] = _ragged(table.name, request)
    return found


def pool(table: Table, bag: Bags, rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Pools ``rows [nnz, dim]``, the table rows of the bag's values in their order, into float64 ``[B, dim]``."""
    weights = np.ones(len(bag.values)) if bag.weights is None else bag.weights
    scaled = rows.astype(np.float64) * weights[:, None]
    pooled = np.zeros((len(bag.lengths), rows.shape[1]))
    ends = np.cumsum(bag.lengths)
    for row, (end, length) in enumerate(zip(ends, bag.lengths, strict=True)):
        if length == 0:
            continue
        own = weights[end - length : end]
        scale = {"sum": 1.0, "mean": own.sum(), "sqrtn": np.sqrt((own * own).sum())}[table.combiner]
        if scale != 0:
            pooled[row] = scaled[end - length : end].sum(axis=0) / scale
    return pooled


def resolve(table: Table, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Applies the table's id policy; -1 stands for a row of zeros. Raises a BundleError under ``reject``."""
    outside = (ids < 0) | (ids >= table.rows)
    if not outside.any():
        return ids
    match table.id_policy:
        case "clamp":
            return np.clip(ids, 0, table.rows - 1)
        case "hash-mod":
            return ids % table.rows
        case "zero":
            return np.where(outside, -1, ids)
    position = int(np.flatnonzero(outside)[0])
    raise BundleError(f'pool table "{table.name}": position {position}: got id {ids[position]}, want [0, {table.rows})')


def _fixed(ids: NDArray[np.generic]) -> Bags:
    values = np.ascontiguousarray(ids).astype(np.int64)
    return Bags(values.reshape(-1), np.full(values.shape[0], values.shape[1], np.int64), None)


def _ragged(name: str, request: Request) -> Bags:
    values = request.get(f"{name}.values")
    if values is None:
        raise BundleError(f'read request: want input "{name}" or "{name}.values", got {sorted(request)}')
    if f"{name}.lengths" in request:
        lengths = request[f"{name}.lengths"].astype(np.int64)
    elif f"{name}.offsets" in request:
        offsets = request[f"{name}.offsets"].astype(np.int64)
        lengths = offsets[1:] - offsets[:-1]
    else:
        raise BundleError(f'read request: "{name}.values" wants "{name}.lengths" or "{name}.offsets" beside it')
    if lengths.min(initial=0) < 0 or lengths.sum() != len(values):
        raise BundleError(f'read request: "{name}": got {lengths.sum()} ids by length, want {len(values)}')
    weights = request.get(f"{name}.weights")
    return Bags(values.astype(np.int64), lengths, None if weights is None else weights.astype(np.float64))
