"""
Zarr v3 arrays as the result of a run, in a folder or an object store. `Writer` is the processor; `create()` makes an
array in advance.

    offramp.Egress(output="RESULTS", processor="python:offramp.zarr:Writer",
                   settings={"processor-option": {"path": "RESULTS/all.zarr", "dims": "sample lat lon"}})

Importing the module does not import zarr. Tested with zarr 3.1.6.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

from offramp._errors import BadArgument, Reject, Retry
from offramp._host import readable
from offramp._name_locks import locked
from offramp._zarr_arrays import (
    chunks_for,
    compressors_of,
    create,
    create_in,
    metadata_of,
    opened,
    place_of,
    store_of,
    stored_extents,
)

if TYPE_CHECKING:
    from offramp._slab import Sample, Slab

__all__ = ["Writer", "create"]

FIELD = "zarr"  # in a sample's metadata: its place in an array


class Writer:
    """
    Writes each tensor of the run to the array of its name in the group `path`: shape (items, *sample shape). A sample
    is at the index of its `item`, its number in the loop. Options are texts:

    `path`: a folder, or a URL of fsspec such as "s3://bucket/all.zarr". Credentials and endpoint come from the
    environment.
    `items`: the first extent, if it is known. A sample beyond it is refused. Without it, the array grows to the largest
    index; then only processes of one machine may write to it.
    `index`: the field of a sample's metadata that holds its index, instead of `item`.
    `dims`: names of all dimensions, such as "time lat lon". Default: "sample", "NAME_1", and so on.
    `coords`: an .npz file with a 1-dimensional array for some of the dimensions.
    `chunk`: extents of a chunk in all dimensions, such as "1 256 256". Default: a sample.
    `shard`: samples of a shard, the object that is stored; a multiple of the chunk's. Default: the chunk's.
    `codec`: zstd, gzip, blosc or none; with a level, such as "zstd:3". Default: zstd.

    The first sample creates the array. Missing samples read as NaN, in arrays of integers as 0. An array that exists
    is continued if its type, its extents and these options agree with it; otherwise its samples are refused.

    A sample with the metadata {"zarr": {"array": NAME, "start": [0, 3, 0]}} is a region of an array that exists, for
    example from create(). `array` defaults to the tensor's name, `shape` to the sample's shape. Regions differ in size
    if the samples do, and never make the array larger.

    A sample is written under the locks of its shards, so no update is lost: also if a slab has a part of a shard, if it
    is delivered twice, or if a consumer dies. A second delivery writes the same bytes. The locks exclude this user's
    processes on this machine (a file in /tmp); those of other machines must write to other shards. A shard that is
    written in parts is read and stored again for each: submit batches of a multiple of `shard`. A consumer that is
    killed may leave a file *.partial, which readers ignore.

    Owns: nothing after a call. Thread: one. Blocks: while another process writes to the shard. Errors: BadArgument for
    an option; Reject for a sample that does not fit; Retry while the object store is unreachable, or if a shard stays
    locked for 20 s.
    """

    def __init__(
        self,
        path: str,
        items: str = "",
        index: str = "",
        dims: str = "",
        coords: str = "",
        chunk: str = "",
        shard: str = "",
        codec: str = "zstd",
    ):
        self._path, self._store = place_of(path), store_of(path)
        self._items = _extents("items", items)[0] if items else None
        self._index, self._dims, self._codec = index, dims.split(), codec
        self._chunk, self._shard = _extents("chunk", chunk), _extents("shard", shard)[0] if shard else None
        compressors_of(codec)
        self._coords = _loaded(coords) if coords else {}
        if self._items is None and self._dims and self._dims[0] in self._coords:
            raise BadArgument(f"'{coords}' has '{self._dims[0]}', whose extent is not known. Give items=N")
        self._arrays: dict[str, Any] = {}

    def __call__(self, slab: Slab) -> None:
        for info in slab.tensors:
            rows, placed = slab[info.name], []
            for sample in slab.samples:
                place = sample.metadata.get(FIELD) if sample.metadata_json else None
                if place is None:
                    placed.append((self._index_of(sample), sample.row))
                else:
                    self._write_region(sample.key, _Region.of(info.name, sample, place, rows[sample.row]))
                    slab.progress()
            if placed and None in info.shape:
                raise Reject(
                    f"samples of '{info.name}' differ in shape. Give each its place in an array: "
                    f"metadata={{'{FIELD}': {{'array': NAME, 'start': [...]}}}}"
                )
            if placed:
                self._write_samples(info.name, rows, sorted(placed), slab)

    def _index_of(self, sample: Sample) -> int:
        index = sample.metadata.get(self._index) if self._index else sample.item
        if type(index) is not int or index < 0:
            raise Reject(f"the metadata '{self._index}' of the sample '{sample.key}' is {index!r:.80}. Give its index")
        if self._items is not None and index >= self._items:
            raise Reject(f"the sample '{sample.key}' has the index {index}, and the array {self._items} items")
        return index

    def _write_samples(self, name: str, rows: Any, placed: list[tuple[int, int]], slab: Slab) -> None:
        """`placed`: index and row of each sample, sorted. Neighbours in a shard are written together."""
        indices = [index for index, _ in placed]
        if len(set(indices)) != len(indices):
            raise Reject(f"two samples of '{name}' have the same index in {indices}. Give each its own")
        example = readable("offramp.zarr", rows[:0])
        array = self._array_for(name, example.dtype, example.shape[1:], indices[-1] + 1)
        length = stored_extents(array)[0]
        for _, each in itertools.groupby(enumerate(placed), lambda each: (each[1][0] // length, each[1][0] - each[0])):
            piece = [place for _, place in each]
            taken = [row for _, row in piece]
            follow = taken == list(range(taken[0], taken[0] + len(taken)))
            values = rows[taken[0] : taken[0] + len(taken)] if follow else rows[taken]
            start = (piece[0][0],) + (0,) * (len(array.shape) - 1)
            self._write(_Region(name, start, readable("offramp.zarr", values)))
            slab.progress()

    def _write_region(self, key: str, region: _Region) -> None:
        array = self._arrays.get(region.array)
        if array is None:
            with _store_errors(self._path):
                array = opened(self._store, region.array)
            if array is None:
                raise Reject(f"{self._path} has no array '{region.array}'. Create it before: offramp.zarr.create()")
            self._arrays[region.array] = array
        values = region.values
        if (
            not len(array.shape) == len(region.start) == values.ndim
            or any(begin + count > end for begin, count, end in zip(region.start, values.shape, array.shape))
            or array.dtype != values.dtype
        ):
            raise Reject(
                f"the sample '{key}', {values.dtype} of shape {values.shape}, does not fit at {list(region.start)} of the array "
                f"'{region.array}', {array.dtype} of shape {array.shape}"
            )
        self._write(region)

    def _array_for(self, name: str, dtype: Any, shape: tuple[int, ...], end: int) -> Any:
        """The array, with room for `end` samples."""
        array = self._arrays.get(name)
        if array is None or array.shape[0] < end:
            with _store_errors(self._path), locked([metadata_of(self._path)]):
                array = opened(self._store, name)
                if array is None:
                    array = self._create(name, dtype, (self._items or end, *shape))
                elif array.shape[0] < end and self._items is None:
                    array.resize((end, *array.shape[1:]))
            self._require_options(name, array)
            self._arrays[name] = array
        if array.shape[1:] != shape or array.dtype != dtype:
            raise Reject(
                f"samples of '{name}' are {dtype} of shape {shape}, those of the array {array.dtype} of shape {array.shape[1:]}"
            )
        return array

    def _create(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        dims = self._dims or ["sample", *(f"{name}_{dim}" for dim in range(1, len(shape)))]
        for option, given in (("dims", dims), ("chunk", self._chunk)):
            if given and len(given) != len(shape):
                raise Reject(
                    f"the option {option} is for {len(given)} dimensions, and the array '{name}' has {len(shape)}. "
                    "Create the arrays before: offramp.zarr.create()"
                )
        chunks = self._chunk or [1, *shape[1:]]
        shards = [self._shard, *shape[1:]] if self._shard else None
        try:
            return create_in(self._store, name, shape, dtype, dims, self._coords, chunks, shards, self._codec)
        except BadArgument as problem:
            raise Reject(str(problem)) from problem

    def _require_options(self, name: str, array: Any) -> None:
        stored = stored_extents(array)
        for option, given, found in (
            ("items", self._items, array.shape[0]),
            ("dims", self._dims, list(array.metadata.dimension_names or ())),
            ("chunk", self._chunk and list(chunks_for(self._chunk, array.shape)), list(array.chunks)),
            ("shard", self._shard, stored[0]),
        ):
            if given and given != found:
                raise Reject(
                    f"the array '{name}' in {self._path} exists with another value of {option}: {found}, not {given}. Use its value, or another path"
                )

    def _write(self, region: _Region) -> None:
        array, extents = self._arrays[region.array], region.values.shape
        if 0 in extents:
            return
        spans = [
            range(begin // size, -(-(begin + count) // size))
            for begin, count, size in zip(region.start, extents, stored_extents(array))
        ]
        with _store_errors(self._path), locked(_shards_of(f"{self._path}/{region.array}", spans)):
            # A region that ends with the array replaces its last shard, so the array's extent must be the latest.
            if spans[0].stop * stored_extents(array)[0] > array.shape[0]:
                array = self._arrays[region.array] = opened(self._store, region.array)
            array[tuple(slice(begin, begin + count) for begin, count in zip(region.start, extents))] = region.values


class _Region(NamedTuple):
    """A sample's place in an array."""

    array: str
    start: tuple[int, ...]
    values: Any

    @classmethod
    def of(cls, name: str, sample: Sample, place: Any, values: Any) -> _Region:
        """Errors: Reject."""
        values = readable("offramp.zarr", values)
        try:
            array, start = place.get("array", name), tuple(place["start"])
            values = values.reshape(tuple(place.get("shape", values.shape)))
            if type(array) is not str or any(type(each) is not int or each < 0 for each in start):
                raise ValueError("no place")
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Reject(
                f"the metadata '{FIELD}' of the sample '{sample.key}' is {place!r:.200}. Give {{'array': NAME, 'start': [0, 3, 0]}}, with a "
                "number of 0 or more per dimension, and the sample's shape if it differs: 'shape': [1, 1, 721]"
            ) from None
        return cls(array, start, values)


def _loaded(path: str) -> dict[str, Any]:
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, TypeError) as problem:
        raise BadArgument(f"coords='{path}' cannot be read: {problem}. Make it with numpy.savez()") from problem


def _extents(option: str, text: str) -> list[int]:
    if not all(each.isdecimal() and int(each) > 0 for each in text.split()):
        raise BadArgument(f"the option {option} is '{text}'. Give whole numbers from 1 on, separated by spaces")
    return [int(each) for each in text.split()]


@contextlib.contextmanager
def _store_errors(path: str) -> Iterator[None]:
    """A full disk and an unreachable store are not the sample's fault."""
    try:
        yield
    except Exception as problem:
        kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(problem).__mro__}
        if (
            isinstance(problem, (ConnectionError, TimeoutError))
            or getattr(problem, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            or kinds & {"botocore.ConnectionError", "botocore.HTTPClientError", "aiohttp.ClientConnectionError"}
        ):
            raise Retry(f"{path}: {problem}") from problem
        raise


def _shards_of(array: str, spans: Sequence[range]) -> Iterator[str]:
    return (f"{array}#{shard}" for shard in itertools.product(*spans))
