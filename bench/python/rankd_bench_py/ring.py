"""A ring in /dev/shm through which one frontend hands packed rows to the device owner and gets scores back.

Layout of the file, little-endian: a control page, entries, scores, rows.

    offset  writer    word (8 bytes each, on lines of their own)
    0x000   frontend  published: entries handed over so far
    0x080   owner     completed: entries given back so far, in the order of their publication
    0x100   owner     owner_asleep: 1 while the owner wants to be woken through its eventfd
    0x180   frontend  frontend_asleep: 1 while the frontend wants to be woken through its eventfd

Entry i % ENTRIES is (first row: u64, rows: u32, status: u32). Rows first .. first + rows lie in one piece; their
scores lie at the same indexes of the score array.

A word is stored only after what it announces. Python has no fences: this relies on x86, where stores become visible in
their order, so other machines are refused. What x86 does reorder is a store and a later load of another word, so a side
that goes to sleep or wakes the other passes a lock between the two, and no wait is without a time limit.
"""

import contextlib
import os
import platform
import threading
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankd_bench_py.bundle import Bundle
from rankd_bench_py.hugemem import HUGE, Memory, nameless_file

ENTRIES = 4096
MAX_WAIT = 0.1  # seconds that any sleep may last
OK, FAILED = 0, 1

_PUBLISHED, _COMPLETED, _OWNER_ASLEEP, _FRONTEND_ASLEEP = 0, 16, 32, 48  # indexes of 8-byte words
_CONTROL_BYTES = 4096
_ENTRY = np.dtype([("first", "<u8"), ("rows", "<u4"), ("status", "<u4")])


@dataclass(frozen=True)
class Geometry:
    """The sizes of a ring: ``rows`` packed rows of ``row_floats`` float32."""

    rows: int
    row_floats: int

    @classmethod
    def of(cls, bundle: Bundle) -> "Geometry":
        """Two of the largest batches: one with the owner, one being written."""
        return cls(2 * bundle.max_batch, bundle.row_floats)

    @property
    def scores_offset(self) -> int:
        """Where the scores start, in bytes."""
        return _CONTROL_BYTES + ENTRIES * _ENTRY.itemsize

    @property
    def rows_offset(self) -> int:
        """Where the rows start, in bytes: on a huge page."""
        return -(-(self.scores_offset + 4 * self.rows) // HUGE) * HUGE

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.rows_offset + 4 * self.rows * self.row_floats


def create(geometry: Geometry) -> int:
    """Makes a ring in a nameless file, all of its pages allocated, and returns the descriptor."""
    fd = nameless_file(geometry.bytes)
    os.posix_fallocate(fd, 0, geometry.bytes)
    return fd


class _End:
    """What both ends of a ring have in common."""

    def __init__(self, fd: int, geometry: Geometry, own_bell: int, other_bell: int) -> None:
        if platform.machine() not in ("x86_64", "AMD64"):
            raise SystemExit(
                f"open ring: got machine {platform.machine()}, want x86_64 (it relies on the order of stores)"
            )
        self.geometry = geometry
        self.bell = own_bell
        self._other_bell = other_bell
        memory = Memory(geometry.bytes, fd)
        memory.collapse()
        # A memoryview's item is read and written as one aligned 8-byte access, and is cheaper than a NumPy scalar.
        self._words = memory.array(np.uint64, 0, _CONTROL_BYTES // 8).data
        entries = memory.array(_ENTRY, _CONTROL_BYTES, ENTRIES)
        self._first, self._count, self._status = (entries[f].data for f in ("first", "rows", "status"))
        self.scores: NDArray[np.float32] = memory.array(np.float32, geometry.scores_offset, geometry.rows)
        rows = memory.array(np.float32, geometry.rows_offset, geometry.rows * geometry.row_floats)
        self.rows: NDArray[np.float32] = rows.reshape(geometry.rows, geometry.row_floats)
        self._fence = threading.Lock()

    def clear_bell(self) -> None:
        """Takes back the rings of this end's eventfd, which must not block."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)

    def _ring(self, asleep: int) -> None:
        with self._fence:
            pass
        if self._words[asleep]:
            os.eventfd_write(self._other_bell, 1)


@dataclass(slots=True)
class Reservation:
    """Rows of the ring that one request or batch writes. Rows are freed in the order of their reservation."""

    first: int
    rows: int
    end: int  # free-running
    free: bool = False


@dataclass(slots=True, frozen=True)
class Done:
    """An entry that came back. Its scores may be overwritten once it is freed."""

    reservation: Reservation
    scores: NDArray[np.float32]
    status: int


class FrontendEnd(_End):
    """The frontend's end. Not for two threads at once: callers hold a lock, but not while they write rows."""

    def __init__(self, fd: int, geometry: Geometry, own_bell: int, owner_bell: int) -> None:
        """Opens the ring with nothing in it."""
        super().__init__(fd, geometry, own_bell, owner_bell)
        self._published = 0
        self._taken = 0
        self._next = 0  # row after the last reserved one, free-running
        self._oldest = 0  # oldest row that is in use, free-running
        self._reserved: deque[Reservation] = deque()  # in order; the first one is not free
        self._entries: deque[Reservation] = deque()  # published, in order
        self._words[_FRONTEND_ASLEEP] = 1

    @property
    def in_flight(self) -> int:
        """Entries that are with the owner."""
        return self._published - self._taken

    def reserve(self, rows: int) -> Reservation | None:
        """Takes ``rows`` free rows in one piece; None if there are none now."""
        size = self.geometry.rows
        start = self._next
        if start % size + rows > size:
            start += size - start % size  # not in one piece before the end: leave those rows out
        if start + rows - self._oldest > size or len(self._reserved) == ENTRIES:
            return None
        self._next = start + rows
        reservation = Reservation(start % size, rows, self._next)
        self._reserved.append(reservation)
        return reservation

    def free(self, reservation: Reservation) -> None:
        """Gives rows back, of an entry whose scores were taken. Rows are used again in order of reservation."""
        reservation.free = True
        while self._reserved and self._reserved[0].free:
            self._oldest = self._reserved.popleft().end

    def publish(self, reservation: Reservation, rows: int) -> None:
        """Hands over the first ``rows`` rows of a reservation, written, until it is freed."""
        at = self._published % ENTRIES
        self._first[at], self._count[at] = reservation.first, rows
        self._entries.append(reservation)
        self._published += 1
        self._words[_PUBLISHED] = self._published
        self._ring(_OWNER_ASLEEP)

    def came_back(self) -> bool:
        """Whether take would find an entry."""
        return bool(self._words[_COMPLETED] != self._taken)

    def take(self) -> Done | None:
        """The next entry that came back, in the order of publication. Free its reservation."""
        number = self._taken
        if number == self._words[_COMPLETED]:
            return None
        at = number % ENTRIES
        self._taken = number + 1
        first = self._first[at]
        return Done(self._entries.popleft(), self.scores[first : first + self._count[at]], self._status[at])

    def set_asleep(self, asleep: bool) -> None:
        """Tells the owner whether it must ring. Look into the ring once more after going to sleep."""
        self._words[_FRONTEND_ASLEEP] = int(asleep)
        with self._fence:
            pass


@dataclass(slots=True, frozen=True)
class Entry:
    """Rows that a frontend handed over."""

    first: int
    count: int


class OwnerEnd(_End):
    """The device owner's end. For one thread."""

    def __init__(self, fd: int, geometry: Geometry, own_bell: int, frontend_bell: int) -> None:
        """Opens the ring."""
        super().__init__(fd, geometry, own_bell, frontend_bell)
        self._seen = 0
        self._completed = 0

    def pending(self) -> bool:
        """Whether an entry waits."""
        return bool(self._words[_PUBLISHED] != self._seen)

    def peek(self) -> Entry | None:
        """The next entry, without taking it."""
        if self._words[_PUBLISHED] == self._seen:
            return None
        at = self._seen % ENTRIES
        return Entry(self._first[at], self._count[at])

    def take(self) -> None:
        """Takes the entry that peek showed."""
        self._seen += 1

    def complete(self, scores: NDArray[np.float32] | None, entry: Entry) -> None:
        """Gives the oldest taken entry back with its scores; None: it failed."""
        at = self._completed % ENTRIES
        if scores is not None:
            self.scores[entry.first : entry.first + entry.count] = scores
        self._status[at] = OK if scores is not None else FAILED
        self._completed += 1
        self._words[_COMPLETED] = self._completed

    def ring(self) -> None:
        """Wakes the frontend, if it sleeps, after one or more calls of complete."""
        self._ring(_FRONTEND_ASLEEP)

    def set_asleep(self, asleep: bool) -> None:
        """Tells the frontend whether it must ring. Look into the ring once more after going to sleep."""
        self._words[_OWNER_ASLEEP] = int(asleep)
        with self._fence:
            pass
