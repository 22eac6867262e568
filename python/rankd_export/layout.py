"""The packed row: every pooled vector and dense input of one example, side by side, in one array for each element type.

The server gathers table rows straight into this form and sends it to the device in one transfer an array, so a pooled
vector starts on a cache line (64 bytes) and a row is a whole number of lines. Pooled vectors come first, in the order
of the tables; dense inputs follow, in their order, in the same array if both are float32. Bytes between them are never
written and never read by the program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rankd_export.errors import BundleError
from rankd_export.spec import Dense, Table

LINE = 64
DTYPES: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
"""Element types that packed arrays may have."""


@dataclass(frozen=True)
class Slot:
    """``width`` elements at ``offset`` bytes from the start of a row of packed array ``array``."""

    offset: int
    width: int
    array: int = 0


@dataclass(frozen=True)
class Array:
    """A packed array ``[B, width]``; ``dtype`` is a key of DTYPES, ``stride`` is bytes a row, a multiple of 64."""

    dtype: str
    stride: int

    @property
    def width(self) -> int:
        """Width of a packed row in elements."""
        return self.stride // DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class Layout:
    """Slots by input name, and the arrays that they lie in."""

    pooled: Mapping[str, Slot]
    dense: Mapping[str, Slot]
    arrays: tuple[Array, ...]

    def columns(self, slot: Slot) -> slice:
        """The slot's columns in its array."""
        first = slot.offset // DTYPES[self.arrays[slot.array].dtype].itemsize
        return slice(first, first + slot.width)

    def pack(
        self, dense: Mapping[str, NDArray[np.floating]], pooled: Mapping[str, NDArray[np.floating]]
    ) -> tuple[NDArray[Any], ...]:
        """Packs inputs ``[B, width]``, rounded to float32 and then to the array's type; other bytes are zero."""
        batch = next(iter((pooled or dense).values())).shape[0]
        packed = tuple(np.zeros((batch, a.width), DTYPES[a.dtype]) for a in self.arrays)
        for slots, values in ((self.pooled, pooled), (self.dense, dense)):
            for name, slot in slots.items():
                packed[slot.array][:, self.columns(slot)] = values[name].astype(np.float32)
        return packed


def plan(tables: Sequence[Table], dense: Sequence[Dense], pooled_dtype: str = "float32") -> Layout:
    """Places every input. The result depends on names, order, dims, widths and the type of pooled vectors only."""
    if pooled_dtype not in DTYPES:
        raise BundleError(f'plan packed row: got pooled_dtype "{pooled_dtype}", want one of {", ".join(DTYPES)}')
    offset = 0
    pooled_slots: dict[str, Slot] = {}
    for table in tables:
        offset = align(offset)
        pooled_slots[table.name] = Slot(offset, table.dim)
        offset += table.dim * DTYPES[pooled_dtype].itemsize
    arrays = [Array(pooled_dtype, align(offset))]
    if not dense:
        return Layout(pooled_slots, {}, tuple(arrays))
    if pooled_dtype != "float32":
        arrays.append(Array("float32", 0))
        offset = 0
    offset = align(offset)
    dense_slots: dict[str, Slot] = {}
    for item in dense:
        dense_slots[item.name] = Slot(offset, item.width, len(arrays) - 1)
        offset += item.width * DTYPES["float32"].itemsize
    arrays[-1] = Array("float32", align(offset))
    return Layout(pooled_slots, dense_slots, tuple(arrays))


def align(offset: int) -> int:
    """The next multiple of 64 that is not below ``offset``."""
    return -(-offset // LINE) * LINE
