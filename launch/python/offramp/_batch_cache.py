"""
Validation results of the previous batch, if its samples have one shape. Loops submit tensors of the same kind
repeatedly, and full validation takes longer than the rest of submit().
"""

from __future__ import annotations

import sys
from typing import Any, Sequence, Union

from offramp._arrays import Outputs
from offramp._torch import Kind, Memory


class _TorchEntry:
    __slots__ = ("_kind", "_shape", "_strides", "_fields", "_element_bytes")

    def __init__(self, tensor: Any, outputs: Outputs):
        self._kind, self._shape, self._strides = Kind(tensor), tensor.shape, tensor.stride()
        self._fields, self._element_bytes = outputs[2:7], outputs.dtype.bits // 8

    def outputs_of(self, name: str, tensor: Any) -> Outputs | None:
        if not self._kind.matches(tensor) or tensor.shape != self._shape or tensor.stride() != self._strides:
            return None
        address = tensor.data_ptr()
        return Outputs(tensor, address, *self._fields, Memory(name, tensor, address, self._element_bytes))


class _NumpyEntry:
    __slots__ = ("_dtype", "_shape", "_strides", "_fields")

    def __init__(self, array: Any, outputs: Outputs):
        self._dtype, self._shape, self._strides, self._fields = array.dtype, array.shape, array.strides, outputs[2:7]

    def outputs_of(self, name: str, array: Any) -> Outputs | None:
        if (
            type(array) is not _ndarray()
            or array.dtype != self._dtype
            or array.shape != self._shape
            or array.strides != self._strides
        ):
            return None
        return Outputs(array, array.__array_interface__["data"][0], *self._fields)


BatchCache = Sequence[Union[_TorchEntry, _NumpyEntry]]


def _ndarray() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.ndarray


def batch_cache_of(tensors: Sequence[object], outputs: Sequence[Outputs]) -> BatchCache | None:
    """
    The cache of a validated batch. None if a tensor was copied, came through DLPack or an interface, or has samples of
    different shapes.
    """
    entries: list[_TorchEntry | _NumpyEntry] = []
    for tensor, each in zip(tensors, outputs):
        if each.samples is not None:
            return None
        if each.owner is tensor and each.memory is not None:
            entries.append(_TorchEntry(tensor, each))
        elif each.owner is tensor and type(tensor) is _ndarray():
            entries.append(_NumpyEntry(tensor, each))
        else:
            return None
    return entries


def outputs_from_cache(cache: BatchCache, names: Sequence[str], tensors: Sequence[object]) -> list[Outputs] | None:
    """
    None if a tensor's kind or the number of tensors differs from the cached batch. Errors: BadArgument for freed
    memory.
    """
    if len(cache) != len(tensors):
        return None
    given = []
    for known, name, tensor in zip(cache, names, tensors):
        outputs = known.outputs_of(name, tensor)
        if outputs is None:
            return None
        given.append(outputs)
    return given
