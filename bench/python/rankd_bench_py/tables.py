"""Loads all embedding tables into one array ``[rows of all tables, dim]``, private or shared between processes."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle, BundleError, tensor_spans
from rankd_bench_py.hugemem import Memory, nameless_file

_PIECE = 64 << 20


def first_rows(bundle: Bundle) -> list[int]:
    """The row of the array at which each table starts."""
    firsts, total = [], 0
    for table in bundle.tables:
        firsts.append(total)
        total += table.rows
    return firsts


def _bytes(bundle: Bundle) -> int:
    return bundle.total_rows * bundle.dim * 4


def _fill(bundle: Bundle, memory: Memory) -> None:
    raw = memory.array(np.uint8, 0, _bytes(bundle))
    at = 0
    for table in bundle.tables:
        path = Path(bundle.directory, table.file)
        span = tensor_spans(path)[table.tensor]
        if span.shape != (table.rows, bundle.dim) or span.dtype != np.dtype("<f4"):
            raise BundleError(
                f'table "{table.name}": got {span.dtype} {span.shape}, want float32 {table.rows, bundle.dim}'
            )
        with path.open("rb", buffering=0) as file:
            file.seek(span.offset)
            end = at + span.size
            while at < end:
                got = file.readinto(raw[at : min(end, at + _PIECE)].data)
                if not got:
                    raise BundleError(f'table "{table.name}": the file ends {end - at} bytes early')
                at += got


def _view(bundle: Bundle, memory: Memory) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = memory.array(np.float32, 0, bundle.total_rows * bundle.dim)
    return rows.reshape(bundle.total_rows, bundle.dim)


def load_private(bundle: Bundle) -> tuple[NDArray[np.float32], Memory]:
    """Loads the tables into private memory of this process."""
    memory = Memory(_bytes(bundle))
    _fill(bundle, memory)
    return _view(bundle, memory), memory


def create_shared(bundle: Bundle) -> int:
    """Loads the tables into a nameless shared file and returns its descriptor."""
    fd = nameless_file(_bytes(bundle))
    memory = Memory(_bytes(bundle), fd)
    _fill(bundle, memory)
    memory.collapse()
    return fd


def attach_shared(bundle: Bundle, fd: int) -> tuple[NDArray[np.float32], Memory]:
    """Maps tables that create_shared loaded, read-only."""
    memory = Memory(_bytes(bundle), fd, writable=False)
    memory.collapse()
    return _view(bundle, memory), memory
