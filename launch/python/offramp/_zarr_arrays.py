"""Zarr arrays with their coordinates: created once, opened again."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from offramp._errors import BadArgument, LibraryNotFound
from offramp._name_locks import locked
from offramp._packages import needs

# Each chunk that was written is stored, so a missing one was not. To compare it with the fill value takes longer.
_CONFIG = {"write_empty_chunks": True}
_LEAST = (3, 1, 2)  # older versions ignore the configuration of an array that exists


def create(
    path: str | os.PathLike[str],
    name: str,
    shape: Sequence[int],
    dtype: object,
    dims: Sequence[str],
    coords: Mapping[str, Any] | None = None,
    chunks: Sequence[int] | None = None,
    shards: Sequence[int] | None = None,
    codec: str = "zstd",
) -> None:
    """
    Creates the array `name` in the group `path`, which may exist. `dims`: one name per dimension. `coords`: coordinates
    by name, as an array over the dimension of that name, or as (dimensions, array). Dates are stored as numbers with
    the units of the CF conventions. `chunks`: default one index of the first dimension. `shards`: the objects that are
    stored, default the chunks; a multiple of the chunks. `codec`: as for Writer.

    An array that exists is left as it is. Thread: any. Blocks: for the store. Errors: BadArgument for arguments, for an
    array that exists with another type, shape, dimensions, chunks or shards, and for coordinates that exist with other
    values.
    """
    path = place_of(os.fspath(path))
    shape, dims = tuple(map(int, shape)), list(dims)
    if len(dims) != len(shape) or not shape:
        raise BadArgument(f"the array '{name}' of shape {shape} has the dimensions {dims}. Give one name per dimension")
    chunks = list(chunks) if chunks else [1, *shape[1:]]
    with locked([metadata_of(path)]):
        create_in(store_of(path), name, shape, dtype, dims, coords or {}, chunks, shards, codec)


def create_in(
    store: Any,
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    dims: Sequence[str],
    coords: Mapping[str, Any],
    chunks: Sequence[int],
    shards: Sequence[int] | None,
    codec: str,
) -> Any:
    """The caller holds the metadata's lock. The array is created last: if it exists, all is complete."""
    import numpy

    if len(chunks) != len(shape) or any(chunk < 1 for chunk in chunks):
        raise BadArgument(
            f"the chunks are {list(chunks)}. Give {len(shape)} whole numbers from 1 on, one per dimension"
        )
    chunks = chunks_for(chunks, shape)
    if shards is not None:
        if len(shards) != len(shape) or any(shard < 1 for shard in shards) or shards[0] % chunks[0]:
            raise BadArgument(f"the shards {list(shards)} are not a multiple of the chunks {list(chunks)}")
        shards = tuple(-(-shard // chunk) * chunk for shard, chunk in zip(shards, chunks))
    dtype = numpy.dtype(dtype)
    array = opened(store, name)
    if array is not None:
        found = (
            array.shape,
            array.dtype,
            tuple(array.metadata.dimension_names or ()),
            array.chunks,
            stored_extents(array),
        )
        if found != (wanted := (shape, dtype, tuple(dims), chunks, shards or chunks)):
            raise BadArgument(f"the array '{name}' exists, with {found}, not {wanted}. Use another path")
        return array
    group = zarr_package().open_group(store, mode="a", zarr_format=3)
    for each, given in coords.items():
        over, values = given if isinstance(given, tuple) else ([each], given)
        if each == name and set(over) <= set(dims):
            raise BadArgument(f"the array '{name}' has the name of its coordinates. Give it another name")
        _write_coordinates(group, each, list(over), values, dict(zip(dims, shape)))
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        shards=None if shards == chunks else shards,
        compressors=compressors_of(codec),
        fill_value=numpy.nan if dtype.kind == "f" else dtype.type(0),
        dimension_names=list(dims),
        config=_CONFIG,
    )


def _write_coordinates(group: Any, name: str, dims: list[str], given: Any, extents: Mapping[str, int]) -> None:
    """Of one chunk, so they are absent or complete. Coordinates of no dimension of this array are left out."""
    import numpy

    values, attributes = _numbers_of(name, numpy.asarray(given))
    if not set(dims) <= set(extents):
        return
    if values.shape != (shape := tuple(extents[dim] for dim in dims)):
        raise BadArgument(f"the coordinates '{name}' have the shape {values.shape}, and the array {shape} there")
    if name not in group:
        group.create_array(
            name,
            shape=shape,
            dtype=str if values.dtype == object else values.dtype,
            chunks=tuple(max(1, extent) for extent in shape),
            dimension_names=dims,
            attributes=attributes,
        )
    array = group[name]
    found = array[...]
    if _are_equal(found, values) and dict(array.attrs) == attributes:
        return
    # else its creator died before it wrote
    if array.shape != shape or not _are_equal(found, numpy.full_like(found, array.fill_value)):
        raise BadArgument(f"the coordinates '{name}' exist with other values. Give the same, or another path")
    array[...] = values


def _are_equal(some: Any, others: Any) -> bool:
    """Whether shapes and elements are the same. NaN equals NaN."""
    import numpy

    return bool(numpy.array_equal(some, others, equal_nan=some.dtype.kind == others.dtype.kind == "f"))


def _numbers_of(name: str, values: Any) -> tuple[Any, dict[str, str]]:
    """Texts as objects; dates and durations as whole seconds, or nanoseconds, with the units of the CF conventions."""
    if values.dtype.kind in "Mm":
        nanoseconds = values.astype(f"{values.dtype.kind}8[ns]").astype("int64")
        unit, factor = ("nanoseconds", 1) if (nanoseconds % 10**9).any() else ("seconds", 10**9)
        if values.dtype.kind == "m":
            return nanoseconds // factor, {"units": unit}
        return nanoseconds // factor, {"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"}
    if values.dtype.kind in "UT":
        return values.astype(object), {}
    if values.dtype.kind not in "biuf":
        raise BadArgument(
            f"the coordinates '{name}' have elements of type {values.dtype}. Give numbers, dates or texts"
        )
    return values, {}


def zarr_package() -> Any:
    with needs("offramp.zarr", "zarr", "'zarr>=3.1.2'"):
        import zarr
    if tuple(int(part) for part in zarr.__version__.split(".")[:3] if part.isdecimal()) < _LEAST:
        raise LibraryNotFound(f"zarr {zarr.__version__} is too old. Install a newer one: pip install 'zarr>=3.1.2'")
    return zarr


def store_of(path: str) -> Any:
    if not path:
        raise BadArgument("no path was given. Give path=FOLDER, or a URL such as s3://bucket/all.zarr")
    storage = zarr_package().storage
    try:
        return storage.FsspecStore.from_url(path) if "://" in path else storage.LocalStore(os.path.abspath(path))
    except (ImportError, ValueError) as problem:
        raise BadArgument(f"the path '{path}' cannot be opened: {problem}") from None


def place_of(path: str) -> str:
    """One text for each place, which names its locks."""
    return path if "://" in path else os.path.realpath(path)


def chunks_for(chunks: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Not larger than a sample. The first extent may grow."""
    return (chunks[0], *(max(1, min(*each)) for each in zip(chunks[1:], shape[1:])))


def opened(store: Any, name: str) -> Any:
    """The array with its latest extents; None: absent."""
    try:
        return zarr_package().open_array(store, path=name, mode="r+", config=_CONFIG)
    except FileNotFoundError:
        return None


def stored_extents(array: Any) -> tuple[int, ...]:
    """The extents of an object of the store."""
    return tuple(array.shards or array.chunks)


def compressors_of(codec: str) -> Any:
    kind, colon, level = codec.partition(":")
    codecs = zarr_package().codecs
    try:
        if kind == "none" and not colon:
            return None
        if kind in ("zstd", "gzip"):
            make = codecs.ZstdCodec if kind == "zstd" else codecs.GzipCodec
            return make(level=int(level)) if colon else make()
        if kind == "blosc":
            return codecs.BloscCodec(clevel=int(level)) if colon else codecs.BloscCodec()
    except (TypeError, ValueError) as problem:
        raise BadArgument(f"the codec '{codec}' is not possible: {problem}") from problem
    raise BadArgument(f"the codec '{codec}' is not supported. Give zstd, gzip, blosc or none, or a level: zstd:3")


def metadata_of(path: str) -> str:
    return f"{path}#"
