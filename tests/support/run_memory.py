"""Reads a run's shared memory: slab states, the progress record and the data."""

import concurrent.futures
import mmap
import os
import pathlib
import struct
import zlib

SHM = pathlib.Path("/dev/shm")
STATES = ("free", "filling", "ready", "leased", "retired", "dead_letters")
# common/wire/ledger_layout.hpp, run_progress.hpp
HEADER_BYTES, CONSUMER_BYTES, ENTRY_BYTES, RECORD_BYTES = 512, 64, 128, 256
VERSION = 3
CURRENT, RECORDS = 32, 512
PIECE_BYTES = 32 << 20  # of a slab, per thread and step of a checksum
SAMPLE_WORDS = 512  # one word of each page


def endpoint(run_dir):
    """The endpoint file that the run's producer published, or {}."""
    try:
        return dict(line.split("=", 1) for line in (run_dir / "live/endpoint").read_text().splitlines() if "=" in line)
    except OSError:
        return {}


class RunMemory:
    """
    Attaches to the run of a directory. Owns: read-only mappings, until close(). Thread: one; sums() starts its own
    threads. Errors: ValueError for a ledger of another version; FileNotFoundError while a span is missing, since a run
    begins before all spans exist.
    """

    def __init__(self, run_dir):
        met = endpoint(run_dir)
        self._prefix = f"offramp-{met['run_id']}-{met['nonce']}."
        self._ledger = self._attach("ledger")
        version, _, _, self.slabs, consumers, self._per_span, spans, self.slab_bytes = struct.unpack_from(
            "<IIQIIIIQ", self._ledger, 8
        )
        if version != VERSION:
            raise ValueError(f"the ledger has version {version}; this program reads version {VERSION}")
        self._entries = HEADER_BYTES + consumers * CONSUMER_BYTES
        self._account = self._entries + self.slabs * ENTRY_BYTES
        self._spans = [
            self._attach(f"s{index}", min(self._per_span, self.slabs - index * self._per_span) * self.slab_bytes)
            for index in range(spans)
        ]
        self._views = [memoryview(span) for span in self._spans]
        self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())

    def close(self):
        self._pool.shutdown()
        for view in self._views:
            view.release()
        for mapping in (*self._spans, self._ledger):
            mapping.close()

    def epoch(self):
        return struct.unpack_from("<I", self._ledger, 12)[0]

    def words(self):
        """(state, attempt, generation) of every slab."""
        packed = (
            struct.unpack_from("<Q", self._ledger, self._entries + slab * ENTRY_BYTES)[0] for slab in range(self.slabs)
        )
        return [(STATES[word >> 60], word >> 48 & 0xFFF, word & (1 << 48) - 1) for word in packed]

    def progress(self):
        """Slabs that all producers together have published, and completed."""
        current = struct.unpack_from("<Q", self._ledger, self._account + CURRENT)[0]
        if current == 0:
            return 0, 0
        record = self._account + RECORDS + (current & 1) * RECORD_BYTES
        return struct.unpack_from("<Q", self._ledger, record + 48)[0], struct.unpack_from(
            "<Q", self._ledger, record + 80
        )[0]

    def sums(self):
        """A checksum of every slab, header and payload."""
        pieces = [
            [
                self._pool.submit(zlib.crc32, slab[begin : begin + PIECE_BYTES])
                for begin in range(0, self.slab_bytes, PIECE_BYTES)
            ]
            for slab in map(self._slab, range(self.slabs))
        ]
        return [tuple(piece.result() for piece in slab) for slab in pieces]

    def samples(self):
        """One word per page of every slab: finds a copy that still runs, in a fraction of the time of sums()."""
        return [view.cast("Q")[::SAMPLE_WORDS].tobytes() for view in self._views]

    def _slab(self, slab):
        begin = slab % self._per_span * self.slab_bytes
        return self._views[slab // self._per_span][begin : begin + self.slab_bytes]

    def _attach(self, name, least_bytes=1):
        with open(SHM / (self._prefix + name), "rb") as file:
            if os.fstat(file.fileno()).st_size < least_bytes:
                raise FileNotFoundError(f"{name} is not complete yet")
            return mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)


def whole_memory(run_dir):
    """None while its pages are still being locked."""
    try:
        return RunMemory(run_dir)
    except FileNotFoundError:
        return None


def changed_pages(before, after):
    """The number of pages in which two samples() differ."""
    return sum(a[i : i + 8] != b[i : i + 8] for a, b in zip(before, after) if a != b for i in range(0, len(a), 8))
