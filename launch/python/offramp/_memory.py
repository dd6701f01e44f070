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
    """
    A second mapping of one of this process's regions, also shared and read-only. Owns it; the last reference unmaps it.
    A forked child does not have it: other memory may be at its address there.
    """

    def __init__(self, begin: int, end: int):
        self.begin, self.end = begin, end
        # the module may be gone when the last view goes
        self._unmap, self._second, self._getpid, self._pid = _libc.munmap, _second, os.getpid, os.getpid()
        # an old size of 0 creates a second mapping of shared memory
        self.address = _libc.mremap(begin, 0, end - begin, _MREMAP_MAYMOVE)
        if self.address in (None, _FAILED):
            self.address, code = None, ctypes.get_errno()
            raise OSError(code, f"mapping a slab for the second time failed: {os.strerror(code)}")
        self._second.add(self.address)
        # like the first mapping: a child must not hold a dead process's slabs
        _libc.madvise(self.address, end - begin, _MADV_DONTFORK)
        # like the first mapping: no read of a slab faults; older kernels ignore it
        _libc.madvise(self.address, end - begin, _MADV_POPULATE_READ)

    def __del__(self) -> None:
        if self.address is not None and self._pid == self._getpid():
            self._second.discard(self.address)
            self._unmap(self.address, self.end - self.begin)


class Mappings:
    """
    The second mappings of one run, one per region of slabs. The first slab maps all regions that the library has mapped
    so far, so that later slabs find them. Thread: one at a time.
    """

    def __init__(self) -> None:
        self._all: list[Mapping] = []

    def find(self, address: int, size: int) -> tuple[Mapping | None, int]:
        """The mapping that contains these bytes, and their address in it."""
        for mapping in self._all:
            if mapping.begin <= address and address + size <= mapping.end:
                return mapping, mapping.address + address - mapping.begin
        # Before the regions are listed: mappings that are removed meanwhile are left out, too.
        known = {mapping.begin for mapping in self._all} | _second
        regions = _regions()
        own = next((region for region in regions if region.begin <= address < region.end), None)
        if own is None:
            raise OSError(f"no memory is mapped at {address:#x}")
        if address + size > own.end:
            raise OSError(f"the slab at {address:#x} with {size} bytes is not in one region of memory")
        if not own.is_shared:  # a dead letter's payload, which lives as long as its processing: no second mapping
            return None, address
        for region in regions:
            if region == own or region.is_beside(own) and region.begin not in known:
                try:
                    self._all.append(Mapping(region.begin, region.end))
                except OSError:
                    if region == own:
                        raise
                    # another consumer of this process has removed it since
        return self.find(address, size)


class _Region(NamedTuple):
    begin: int
    end: int
    is_shared: bool
    path: str

    def is_beside(self, other: _Region) -> bool:
        """Whether both belong to one run's slabs: "/dev/shm/offramp-RUN.s0" and "....s1"."""
        return self == other or self.is_shared and self.path.rpartition(".s")[0] == other.path.rpartition(".s")[0] != ""


def _regions() -> list[_Region]:
    regions = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            bounds, permissions, _, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            begin, end = (int(part, 16) for part in bounds.split("-"))
            regions.append(_Region(begin, end, permissions.endswith("s"), path[0] if path else ""))
    return regions


_second: set[int] = set()  # addresses of this process's second mappings, which are not mapped again
os.register_at_fork(after_in_child=_second.clear)
