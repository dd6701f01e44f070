"""
The work of a peer's worker processes on a batch, and their loops. The fork server imports this before it forks workers,
so that they start fast; it never uses CUDA.
"""

import ctypes

import numpy
import torch

from processes import die_with_parent
from progress import ProgressCell

die_with_parent()  # for the fork server; workers call it again


def flat_bytes(tensor):
    """The tensor's memory as bytes, in storage order."""
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
    return flat[: tensor.numel() * tensor.element_size()]


class WriteCopy:
    """Like the article's consumers, serialises the bytes into a copy and writes it to /dev/null."""

    def __init__(self):
        self._sink = open("/dev/null", "wb", buffering=0)

    def read(self, flat):
        self._sink.write(flat.tobytes())


class ReadAll:
    """Reads every byte in place, with our consumers' hash loop, or with NumPy's sum if the library was not built."""

    def __init__(self, library):
        self._read = None
        if library:
            self._read = ctypes.CDLL(library).offramp_read
            self._read.argtypes, self._read.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_uint64

    def read(self, flat):
        if self._read:
            self._read(flat.ctypes.data, flat.size)
        else:
            whole = flat.size // 8 * 8
            int(flat[:whole].view(numpy.uint64).sum()) + int(flat[whole:].sum())


def make_reader(kind, library):
    return WriteCopy() if kind == "write-copy" else ReadAll(library)


def prepare_worker():
    die_with_parent()
    torch.set_num_threads(1)


def read_fresh_tensors(index, options, work):
    """Rung 1: each message is a tensor in its own shared segment."""
    prepare_worker()
    reader, cell = make_reader(options.reader, options.native_reader), ProgressCell(options.progress, index)
    while True:
        tensor = work.get()
        flat = flat_bytes(tensor)
        reader.read(flat)
        size = flat.size
        del flat, tensor
        cell.add(options.batch, size)


def read_pool(index, options, buffers, work, free):
    """Rungs 2 to 4: messages are numbers of buffers that every worker has mapped."""
    prepare_worker()
    reader, cell = make_reader(options.reader, options.native_reader), ProgressCell(options.progress, index)
    flats = [flat_bytes(buffer) for buffer in buffers]
    while True:
        slab = work.get()
        reader.read(flats[slab])
        free.put(slab)
        cell.add(options.batch, flats[slab].size)
