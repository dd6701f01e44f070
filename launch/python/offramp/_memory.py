"""Second mappings of slabs, which keep views readable after the library unmaps its own at a run's end."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

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
        self._unmap, self._second = _libc.munmap, _second      # modules may be gone when the last view is
        self.address = _libc.mremap(begin, 0, end - begin, _MREMAP_MAYMOVE)     # from nothing of a shared mapping: a second one
        if self.address in (None, _FAILED):
            self.address, code = None, ctypes.get_errno()
            raise OSError(code, f"mapping a slab a second time: {os.strerror(code)}")
        self._second.add(self.address)
        _libc.madvise(self.address, end - begin, _MADV_DONTFORK)    # as the first: a child must not hold a dead process's slabs
        _libc.madvise(self.address, end - begin, _MADV_POPULATE_READ)   # as the first: no read of a slab faults; older kernels do not know it

    def __del__(self) -> None:
        if self.address is not None:
            self._second.discard(self.address)
            self._unmap(self.address, self.end - self.begin)


class Mappings:
    """
    Those of one run, one a region of slabs. The first slab brings those of all regions that the library has mapped by then, as it does where a
    consumer has nothing to do: later slabs find them. Thread: one at a time.
    """

    def __init__(self) -> None:
        self._all: list[Mapping] = []

    def find(self, address: int, size: int) -> tuple[Mapping | None, int]:
        """The mapping of these bytes, and where they are in it."""
        for mapping in self._all:
            if mapping.begin <= address and address + size <= mapping.end:
                return mapping, mapping.address + address - mapping.begin
        regions = _regions()
        own = next((region for region in regions if region.begin <= address < region.end), None)
        if own is None:
            raise OSError(f"there is no memory at {address:#x}")
        if address + size > own.end:
            raise OSError(f"the slab at {address:#x} with {size} bytes is not in one region of memory")
        if not own.is_shared:      # a dead letter's payload, which stays as long as its processing takes: there is no second one of it
            return None, address
        known = {mapping.begin for mapping in self._all} | _second
        self._all += [Mapping(region.begin, region.end) for region in regions if region.is_beside(own) and region.begin not in known]
        return self.find(address, size)


class _Region(NamedTuple):
    begin: int
    end: int
    is_shared: bool
    path: str

    def is_beside(self, other: _Region) -> bool:
        """Whether both are of one run's slabs: "/dev/shm/offramp-RUN.s0" and "....s1"."""
        return self == other or self.is_shared and self.path.rpartition(".s")[0] == other.path.rpartition(".s")[0] != ""


def _regions() -> list[_Region]:
    regions = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            bounds, permissions, _, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            begin, end = (int(part, 16) for part in bounds.split("-"))
            regions.append(_Region(begin, end, permissions.endswith("s"), path[0] if path else ""))
    return regions


_second: set[int] = set()      # addresses of second mappings in this process, which are not mapped again
