"""The packed row: every pooled vector and dense input of one example, side by side in one float32 array.

The server gathers table rows straight into this form and sends it to the device in one transfer, so a pooled vector
starts on a cache line (64 bytes) and a row is a whole number of lines. Pooled vectors come first, in the order of the
tables; dense inputs follow, in their order. Bytes between them are never written and never read by the program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_export.spec import Dense, Table

LINE = 64
FLOAT = 4


@dataclass(frozen=True)
class Slot:
    """``width`` float32 at ``offset`` bytes from the start of a packed row."""

    offset: int
    width: int

    @property
    def columns(self) -> slice:
        """The slot's columns in a float32 array ``[B, stride / 4]``."""
        first = self.offset // FLOAT
        return slice(first, first + self.width)


@dataclass(frozen=True)
class Layout:
    """Slots by input name, and the stride of a row in bytes, a multiple of 64."""

    pooled: Mapping[str, Slot]
    dense: Mapping[str, Slot]
    stride: int

    @property
    def width(self) -> int:
        """Width of a packed row in float32 elements."""
        return self.stride // FLOAT

    def pack(
        self, dense: Mapping[str, NDArray[np.floating]], pooled: Mapping[str, NDArray[np.floating]]
    ) -> NDArray[np.float32]:
        """Packs inputs ``[B, width]`` into float32 ``[B, self.width]``; bytes between slots are zero."""
        batch = next(iter((pooled or dense).values())).shape[0]
        packed = np.zeros((batch, self.width), np.float32)
        for slots, values in ((self.pooled, pooled), (self.dense, dense)):
            for name, slot in slots.items():
                packed[:, slot.columns] = values[name]
        return packed


def plan(tables: Sequence[Table], dense: Sequence[Dense]) -> Layout:
    """Places every input. The result depends on names, order, dims and widths only."""
    offset = 0
    pooled_slots: dict[str, Slot] = {}
    for table in tables:
        offset = align(offset)
        pooled_slots[table.name] = Slot(offset, table.dim)
        offset += table.dim * FLOAT
    offset = align(offset)
    dense_slots: dict[str, Slot] = {}
    for item in dense:
        dense_slots[item.name] = Slot(offset, item.width)
        offset += item.width * FLOAT
    return Layout(pooled_slots, dense_slots, align(offset))


def align(offset: int) -> int:
    """The next multiple of 64 that is not below ``offset``."""
    return -(-offset // LINE) * LINE
