"""
An IOBackend of Earth2Studio that writes Zarr while the model goes on. Does not import earth2studio; tested with 0.19.0.

    with offramp.earth2studio.Backend("forecast.zarr", shards={"lead_time": 8}) as io:
        earth2studio.run.deterministic(times, steps, model, data, io)
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from offramp._errors import BadArgument
from offramp._regions import Region, Regions
from offramp.zarr import create

if TYPE_CHECKING:
    import numpy

__all__ = ["Backend"]

_CHUNKS = {"ensemble": 1, "time": 1, "lead_time": 1, "variable": 1}  # as in earth2studio.io.ZarrBackend


class Backend:
    """
    Implements earth2studio.io.IOBackend over offramp.zarr. write() copies on the GPU and returns; consumers compress
    and store. Leaving the context waits until all is written; leaving it by an exception abandons the rest.

    `path`: a folder, or a URL of fsspec. `chunks`, `shards`: extents by dimension; default as in Earth2Studio's
    ZarrBackend, and no shards. `codec`: as for offramp.zarr.Writer. `consumers`: 0 chooses their number.
    `slab_bytes`: as for Egress; a region without gaps must fit. Default: chosen by the first write.

    Arrays are float32. Their coordinates may be in any order, with gaps, and curvilinear (2-dimensional). A region may
    be written once. A workflow that is started again writes everything again, with the same bytes.

    Owns: an Egress and its consumers. Thread: any, one at a time. Blocks: write() while all slabs are full; close().
    Errors: BadArgument, and those of Egress.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        chunks: Mapping[str, int] | None = None,
        shards: Mapping[str, int] | None = None,
        codec: str = "zstd",
        consumers: int = 0,
        slab_bytes: int | str = 0,
    ):
        self._path, self._codec = os.fspath(path), codec
        self._chunks, self._shards = {**_CHUNKS, **(chunks or {})}, shards or {}
        self._coords: dict[str, numpy.ndarray[Any, Any]] = {}
        self._dims: dict[str, list[str]] = {}  # of each array
        self._regions = Regions(self._path, consumers, slab_bytes)

    def add_array(self, coords: Mapping[str, Any], array_name: str | Sequence[str], **kwargs: Any) -> None:
        """
        Creates an array for each name, with these coordinates as its dimensions. An array that exists with the same is
        kept. `kwargs`: none is supported. Errors: BadArgument.
        """
        if kwargs:
            raise BadArgument(f"add_array() got {', '.join(kwargs)}. Give chunks, shards and codec to the Backend")
        axes, over = _axes_of(coords)
        shape = [len(values) for values in axes.values()]
        chunks = [min(self._chunks.get(dim, extent), extent) for dim, extent in zip(axes, shape)]
        shards = [max(chunk, min(self._shards.get(dim, 0), extent)) for dim, extent, chunk in zip(axes, shape, chunks)]
        given = {**axes, **{name: (dims, coords[name]) for name, dims in over.items()}}
        for name in _names_of(array_name):
            create(self._path, name, shape, "float32", list(axes), given, chunks, shards, self._codec)
            self._dims[name], given = list(axes), {}
        self._coords.update(axes)

    def write(self, x: Any, coords: Mapping[str, Any], array_name: str | Sequence[str]) -> None:
        """
        Writes each tensor of shape `coords` to the array of its name. Errors: BadArgument for coordinates that the
        array lacks, for another shape, and for a region that was written before.
        """
        names = _names_of(array_name)
        tensors = [x] if hasattr(x, "shape") else list(x)
        if len(tensors) != len(names):
            raise BadArgument(f"write() got {len(tensors)} tensors for {len(names)} arrays. Give one for each")
        axes, _ = _axes_of(coords)
        for name in names:
            if name not in self._dims:
                self.add_array(coords, name)
            if self._dims[name] != list(axes):
                raise BadArgument(f"the array '{name}' has the dimensions {self._dims[name]}, not {list(axes)}")
        for name, tensor in zip(names, tensors):
            if tuple(tensor.shape) != (shape := tuple(len(values) for values in axes.values())):
                raise BadArgument(
                    f"the tensor of '{name}' has the shape {tuple(tensor.shape)}, its coordinates {shape}"
                )
        indices = [self._indices_of(dim, values) for dim, values in axes.items()]
        for axis, each in enumerate(indices):  # in the arrays' order, so that regions have few gaps
            if (each[1:] < each[:-1]).any():
                order = each.argsort(kind="stable")
                indices[axis] = each[order]
                tensors = [tensor[(slice(None),) * axis + (order.tolist(),)] for tensor in tensors]
        pieces = list(_pieces(indices))
        self._regions.write(
            Region(name, start, tensor[place]) for name, tensor in zip(names, tensors) for start, place in pieces
        )

    def close(self) -> None:
        """Waits until everything is written. Idempotent. Errors: those of Egress.drain()."""
        self._regions.close()

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self._regions.close(abandon=kind is not None)

    def _indices_of(self, dim: str, values: Any) -> numpy.ndarray[Any, Any]:
        import numpy

        known = self._coords[dim]
        order = numpy.argsort(known, kind="stable")
        found: numpy.ndarray[Any, Any] = order[numpy.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)]
        if (absent := numpy.asarray(values)[known[found] != values]).size:
            raise BadArgument(f"the arrays have no coordinate {absent[0]!s} in '{dim}'. Give it to add_array()")
        return found


def _names_of(array_name: str | Sequence[str]) -> list[str]:
    return [array_name] if isinstance(array_name, str) else [str(name) for name in array_name]


def _axes_of(coords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """
    Coordinates of one dimension each, and the dimensions of those that have several, named as
    earth2studio.utils.coords.convert_multidim_to_singledim does: lat and lon of 2 dimensions are over ilat and ilon.
    """
    import numpy

    axes: dict[str, Any] = {}
    over: dict[str, list[str]] = {}
    rest = [(name, numpy.asarray(values)) for name, values in coords.items() if not name.startswith("_")]
    while rest:
        name, values = rest[0]
        group, rest = rest[: max(1, values.ndim)], rest[max(1, values.ndim) :]
        if values.ndim < 2:
            axes[name] = values.reshape(-1)
            continue
        if [each.shape for _, each in group] != [values.shape] * values.ndim:
            raise BadArgument(
                f"the coordinate '{name}' has {values.ndim} dimensions. Give as many of the same shape, one after another"
            )
        dims = [f"i{each}" for each, _ in group]
        axes.update((dim, numpy.arange(extent)) for dim, extent in zip(dims, values.shape))
        over.update((each, dims) for each, _ in group)
    return axes, over


def _pieces(indices: list[Any]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Regions without gaps: where each begins in the array, and its place in the tensor."""
    import numpy

    runs = []
    for each in indices:
        ends = [0, *(numpy.flatnonzero(numpy.diff(each) != 1) + 1).tolist(), len(each)]
        runs.append([(int(each[begin]), slice(begin, end)) for begin, end in zip(ends, ends[1:]) if begin < end])
    for piece in itertools.product(*runs):
        yield tuple(start for start, _ in piece), tuple(place for _, place in piece)
