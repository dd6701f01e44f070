"""How far a peer is, for the benchmark's driver to read while it runs: a small file of cells, one a process that finishes samples.

A cell is 64 bytes, so that no two processes write one cache line:

    0 sequence u64    odd while the cell is being written
    8 samples  u64    finished by this process
   16 last_ns  u64    CLOCK_MONOTONIC of the last one
   24 bytes    u64    of their payloads
   32 spare
"""

import mmap
import pathlib
import struct
import time

CELL = 64
FIELDS = struct.Struct("<QQQQ")


def make_progress_file(path, cells):
    pathlib.Path(path).write_bytes(bytes(CELL * cells))


class ProgressCell:
    """One process's own cell. Thread: one."""

    def __init__(self, path, index):
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._offset = index * CELL
        self._sequence, self._samples, _, self._bytes = FIELDS.unpack_from(self._memory, self._offset)

    def add(self, samples, payload_bytes=0):
        self._samples += samples
        self._bytes += payload_bytes
        struct.pack_into("<Q", self._memory, self._offset, self._sequence + 1)
        self._sequence += 2
        FIELDS.pack_into(self._memory, self._offset, self._sequence, self._samples, time.monotonic_ns(), self._bytes)


def read_progress(path):
    """(samples, CLOCK_MONOTONIC of the last one, bytes) over all cells."""
    samples = last_ns = payload_bytes = 0
    memory = pathlib.Path(path).read_bytes()
    for offset in range(0, len(memory), CELL):
        cell = FIELDS.unpack_from(memory, offset)
        while cell[0] % 2:   # caught in the middle of a write
            cell = FIELDS.unpack_from(pathlib.Path(path).read_bytes(), offset)
        samples, last_ns, payload_bytes = samples + cell[1], max(last_ns, cell[2]), payload_bytes + cell[3]
    return samples, last_ns, payload_bytes
