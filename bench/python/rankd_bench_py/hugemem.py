"""Memory on huge pages, private or shared, and what the kernel really gave.

``mmap.mmap`` takes no address, and a mapping gets huge pages only where it is aligned to them, so this calls
the C library.
"""

import ctypes
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

HUGE = 2 << 20
_PROT_NONE = 0
_MAP_FIXED = 0x10
_MADV_HUGEPAGE = 14
_MADV_POPULATE_READ = 22
_MADV_COLLAPSE = 25
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Memory:
    """A mapping, aligned to huge pages, that lives until the process ends.

    Nothing unmaps it: arrays over it may outlive any object, and these servers need all of it until they exit.
    """

    def __init__(self, size: int, fd: int = -1, *, writable: bool = True) -> None:
        """Maps ``size`` bytes: of ``fd``, shared, or (-1) private memory without a file."""
        self.size = -(-size // HUGE) * HUGE
        self._writable = writable
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if fd < 0 else mmap.MAP_SHARED
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        reserved = _map(0, self.size + HUGE, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        self.address = -(-reserved // HUGE) * HUGE
        _map(self.address, self.size, access, kind | _MAP_FIXED, fd)
        # Where the kernel has no huge pages to give, the memory works without.
        _libc.madvise(self.address, self.size, _MADV_HUGEPAGE)

    def array(self, dtype: Any, offset: int = 0, count: int = -1) -> NDArray[Any]:
        """A view of ``count`` elements (-1: as many as there are) from ``offset`` bytes on."""
        raw = (ctypes.c_char * self.size).from_address(self.address)
        view: NDArray[Any] = np.frombuffer(memoryview(raw).cast("B"), dtype, count, offset)
        view.flags.writeable = self._writable  # a store would be the end of the process
        return view

    def collapse(self) -> None:
        """Asks for huge pages behind what has been written, where writing it did not bring them, and maps them."""
        _libc.madvise(self.address, self.size, _MADV_COLLAPSE)
        _libc.madvise(self.address, self.size, _MADV_POPULATE_READ)

    def huge_bytes(self) -> int:
        """The bytes that are mapped by huge pages now."""
        kinds = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")
        total, inside = 0, False
        with open("/proc/self/smaps") as smaps:
            for line in smaps:
                first = line.split(None, 1)[0]
                if "-" in first and not first.endswith(":"):
                    inside = self.address <= int(first.split("-")[0], 16) < self.address + self.size
                elif inside and first in kinds:
                    total += 1024 * int(line.split()[1])
        return total


def _map(address: int, size: int, access: int, flags: int, fd: int) -> int:
    got = _libc.mmap(address or None, size, access, flags, fd, 0)
    if got is None or got == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, f"map {size} bytes: {os.strerror(code)}")
    return int(got)


def nameless_file(size: int) -> int:
    """Opens a file in /dev/shm that has no name, so that nothing stays behind however its users end."""
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.ftruncate(fd, -(-size // HUGE) * HUGE)
    return fd
