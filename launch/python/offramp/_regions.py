"""Regions of Zarr arrays, submitted to consumers of their own: what the adapters of weather models share."""

from __future__ import annotations

import tempfile
from typing import Any, Iterable, NamedTuple

from offramp._egress import Egress
from offramp._errors import BadArgument
from offramp._torch import is_torch
from offramp.zarr import FIELD


class Region(NamedTuple):
    array: str
    start: tuple[int, ...]  # one index per dimension
    values: Any  # with the array's dimensions


class Regions:
    """
    Writes regions as float32 to arrays of the group `path` that exist. Each may be written once.

    Owns: an Egress, its consumers, a folder for their notes. Thread: any, one at a time. Blocks: write() while all
    slabs are full; close(). Errors: those of Egress.
    """

    def __init__(self, path: str, consumers: int, slab_bytes: int | str = 0):
        self._folder = tempfile.TemporaryDirectory(prefix="offramp-zarr-")
        self._egress = Egress(
            output=self._folder.name,
            processor="python:offramp.zarr:Writer",
            consumers=consumers,
            settings={"processor-option": {"path": path}},
            slab_bytes=slab_bytes,
            repeated_keys="allow",  # write() refuses them
        )
        self._written: set[str] = set()  # keys
        self._is_closed = False

    def write(self, regions: Iterable[Region]) -> None:
        """Copies the values on their device before it returns, so the caller may change them afterwards."""
        regions = list(regions)
        keys = [f"{region.array}/{'-'.join(map(str, region.start))}" for region in regions]
        for at, (key, region) in enumerate(zip(keys, regions)):
            if key in self._written or key in keys[:at]:
                raise BadArgument(
                    f"the region at {list(region.start)} of the array '{region.array}' was written before. Write each "
                    "region once"
                )
        places = [
            {FIELD: {"array": region.array, "start": region.start, "shape": list(region.values.shape)}}
            for region in regions
        ]
        self._egress.submit({"values": [_flat(region.values) for region in regions]}, keys, copy=True, metadata=places)
        self._written.update(keys)

    def close(self, abandon: bool = False) -> None:
        """Waits until everything is written, or abandons it. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if not abandon:
                self._egress.drain()
        finally:
            self._egress.close()
            self._folder.cleanup()


def _flat(values: Any) -> Any:
    """Regions may differ in their number of dimensions, samples of a tensor may not."""
    if is_torch(values):
        return values.detach().float().reshape(-1)
    import numpy

    return numpy.asarray(values, "float32").reshape(-1)
