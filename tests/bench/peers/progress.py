"""
The progress of a peer, which the benchmark's driver reads while it runs: a small file of cells, one per process that
finishes samples.

A cell is 64 bytes, so that no two processes write one cache line. Records go alternately to its two slots. The
number of records is stored last, as one word: it commits the record, and its parity selects the newest slot.

    0 commits     u64
    8 spare
   16 record 0    samples u64   finished by this process
                  last_ns u64   CLOCK_MONOTONIC of the last one
                  bytes   u64   of their payloads
   40 record 1    the same

A process that dies or stops in the middle of a record leaves the committed one intact, so no reader waits. Stores and
loads happen in program order, as on x86-64.
"""

import mmap
import struct
import time

CELL = 64
COMMITS = struct.Struct("@Q")  # native: one store, one load
RECORD = struct.Struct("@QQQ")
RECORDS = (16, 40)


def make_progress_file(path, cells):
    with open(path, "wb") as file:
        file.write(bytes(CELL * cells))


def map_progress_file(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


class ProgressCell:
    """The cell of one process. Thread: one."""

    def __init__(self, path, index):
        self._memory = map_progress_file(path)
        self._offset = index * CELL
        (self._commits,) = COMMITS.unpack_from(self._memory, self._offset)
        self._samples, _, self._bytes = RECORD.unpack_from(self._memory, self._offset + RECORDS[self._commits % 2])

    def add(self, samples, payload_bytes=0):
        self._samples += samples
        self._bytes += payload_bytes
        self._commits += 1
        RECORD.pack_into(
            self._memory, self._offset + RECORDS[self._commits % 2], self._samples, time.monotonic_ns(), self._bytes
        )
        COMMITS.pack_into(self._memory, self._offset, self._commits)


class ProgressReader:
    """All cells of a file, at one moment. Thread: one."""

    def __init__(self, path):
        self._memory = map_progress_file(path)

    def read(self):
        """
        (samples, CLOCK_MONOTONIC of the last one, bytes) over all cells. Reads again if any process committed
        meanwhile, because a record may have been overwritten and the sum would belong to no moment.
        """
        while True:
            before = self._commits()
            records = [
                RECORD.unpack_from(self._memory, index * CELL + RECORDS[commits % 2])
                for index, commits in enumerate(before)
            ]
            if self._commits() == before:
                samples, last_ns, payload_bytes = zip(*records)
                return sum(samples), max(last_ns), sum(payload_bytes)

    def _commits(self):
        return [COMMITS.unpack_from(self._memory, offset)[0] for offset in range(0, len(self._memory), CELL)]
