"""What a caller says about a model: its tables and its dense inputs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankd_export.errors import BundleError

COMBINERS = ("sum", "mean", "sqrtn")
ID_POLICIES = ("reject", "clamp", "zero", "hash-mod")

# A dot would collide with the names of ragged inputs ("t.values"), a slash with the paths of files.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_RESERVED = ("ids", "expect")
ROW_DTYPES = ("float32", "float16", "bfloat16")
"""Types of table rows that can be exported."""


@dataclass(frozen=True)
class Table:
    """One embedding table.

    ``array`` is ``[rows, dim]``, float32, float16 or bfloat16 (ml_dtypes), and is stored so; pooled vectors are float32
    whatever it is. An ``np.memmap`` is written without being read into memory first. For 8-bit rows export float32 and
    use ``rankd model quantize``.
    ``hotness`` is the number of ids that every row of a request brings, or 0 for a ragged bag of any length.
    ``combiner`` is how a bag is pooled: ``"sum"``, ``"mean"`` or ``"sqrtn"``. ``id_policy`` is what happens to an
    id outside ``[0, rows)``: ``"reject"`` refuses the request, ``"clamp"``, ``"zero"`` and ``"hash-mod"`` serve it.
    """

    name: str
    array: NDArray[Any]
    hotness: int = 1
    combiner: str = "sum"
    id_policy: str = "reject"

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @property
    def dim(self) -> int:
        """Width of a row in elements."""
        return int(self.array.shape[1])


@dataclass(frozen=True)
class Dense:
    """A dense input, float32 ``[B, width]``."""

    name: str
    width: int


def check(tables: Sequence[Table], dense: Sequence[Dense]) -> None:
    """Raises one BundleError that lists every violation."""
    problems: list[str] = []
    if not tables:
        problems.append("tables: got none, want at least one")
    for table in tables:
        problems.extend(_table_problems(table))
    for item in dense:
        problems.extend(_name_problems("dense input", item.name))
        if item.width < 1:
            problems.append(f'dense input "{item.name}": got width {item.width}, want at least 1')
    seen: set[str] = set()
    for name in [t.name for t in tables] + [d.name for d in dense]:
        if name in seen:
            problems.append(f'input "{name}": got two of this name, want each name once')
        seen.add(name)
    if problems:
        raise BundleError("check model: " + "; ".join(problems))


def check_output_name(name: str) -> None:
    """Raises a BundleError if clients could not ask for an output of this name."""
    problems = _name_problems("output", name)
    if problems:
        raise BundleError("check model: " + "; ".join(problems))


def _name_problems(what: str, name: str) -> list[str]:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        reserved = " and ".join(f'"{r}"' for r in _RESERVED)
        return [f'{what} "{name}": want letters, digits, "_" and "-" ({reserved} are reserved)']
    return []


def _table_problems(table: Table) -> list[str]:
    problems = _name_problems("table", table.name)
    where = f'table "{table.name}"'
    array = table.array
    if not isinstance(array, np.ndarray):
        problems.append(f"{where}: got {type(array).__name__}, want a NumPy array (np.asarray(x))")
    elif array.dtype.name not in ROW_DTYPES or array.ndim != 2:
        got = f"{array.dtype} {list(array.shape)}"
        problems.append(f"{where}: got an array {got}, want {', '.join(ROW_DTYPES)} [rows, dim]")
    elif 0 in array.shape:
        problems.append(f"{where}: got shape {list(array.shape)}, want at least one row and one column")
    if table.hotness < 0:
        problems.append(f"{where}: got hotness {table.hotness}, want 0 (ragged) or the ids of a bag")
    if table.combiner not in COMBINERS:
        problems.append(f'{where}: got combiner "{table.combiner}", want one of {", ".join(COMBINERS)}')
    if table.id_policy not in ID_POLICIES:
        problems.append(f'{where}: got id policy "{table.id_policy}", want one of {", ".join(ID_POLICIES)}')
    return problems
