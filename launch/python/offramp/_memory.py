"""Mappings of slabs of our own: what the library unmaps at a run's end stays readable as long as somebody has a view of it."""

from __future__ import annotations

import ctypes
import os

_MREMAP_MAYMOVE, _MADV_DONTFORK, _MADV_POPULATE_READ = 1, 10, 22
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Mapping:
    """A second mapping of a region of this process, as the region is: shared, read-only. Owns it; unmapped with the last reference."""

    def __init__(self, begin: int, end: int):
        self.begin, self.end = begin, end
        self._unmap = _libc.munmap      # modules may be gone when the last view is
        self.address = _libc.mremap(begin, 0, end - begin, _MREMAP_MAYMOVE)     # from nothing of a shared mapping: a second one
        if self.address in (None, _FAILED):
            self.address, code = None, ctypes.get_errno()
            raise OSError(code, f"mapping a slab a second time: {os.strerror(code)}")
        _libc.madvise(self.address, end - begin, _MADV_DONTFORK)    # as the first: a child must not hold a dead process's slabs
        _libc.madvise(self.address, end - begin, _MADV_POPULATE_READ)   # as the first: no read of a slab faults; older kernels do not know it

    def __del__(self) -> None:
        if self.address is not None:
            self._unmap(self.address, self.end - self.begin)


class Mappings:
    """Those of one run, one a region of slabs. Thread: one at a time."""

    def __init__(self) -> None:
        self._all: list[Mapping] = []

    def find(self, address: int, size: int) -> tuple[Mapping | None, int]:
        """The mapping of these bytes, and where they are in it."""
        for mapping in self._all:
            if mapping.begin <= address and address + size <= mapping.end:
                return mapping, mapping.address + address - mapping.begin
        begin, end, shared = _region_of(address)
        if address + size > end:
            raise OSError(f"the slab at {address:#x} with {size} bytes is not in one region of memory")
        if not shared:      # a dead letter's payload, which stays as long as its processing takes: there is no second one of it
            return None, address
        self._all.append(Mapping(begin, end))
        return self.find(address, size)


def _region_of(address: int) -> tuple[int, int, bool]:
    """Where it begins and ends, and whether it is a shared mapping."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            bounds, permissions, _ = line.split(" ", 2)
            begin, end = (int(part, 16) for part in bounds.split("-"))
            if begin <= address < end:
                return begin, end, permissions.endswith("s")
    raise OSError(f"there is no memory at {address:#x}")
