"""
Validation results of the previous batch, if its samples have one shape. Loops submit tensors of the same kind
repeatedly, and full validation takes longer than the rest of submit().
"""

from __future__ import annotations

import sys
from typing import Any, Sequence, Union

from offramp._arrays import Outputs, order_of_numpy
from offramp._order import order_of
from offramp._torch import Kind, Memory, is_torch, wait_for_device_copy_into


class _TorchEntry:
    __slots__ = ("_kind", "_shape", "_strides", "_fields", "_element_bytes")

    def __init__(self, tensor: Any, outputs: Outputs):
        self._kind, self._shape, self._strides = Kind(tensor), tensor.shape, tensor.stride()
        self._fields, self._element_bytes = outputs[2:7], outputs.dtype.bits // 8

    def outputs_of(self, name: str, tensor: Any, copy: bool | None) -> Outputs | None:
        if not self._kind.matches(tensor) or tensor.shape != self._shape or tensor.stride() != self._strides:
            return None
        address = tensor.data_ptr()
        outputs = Outputs(tensor, address, *self._fields, Memory(name, tensor, address, self._element_bytes))
        if copy is None and outputs.may_change_unseen:
            wait_for_device_copy_into(tensor)
            made = tensor.clone()
            return Outputs(made, made.data_ptr(), *self._fields, is_own=True)
        return outputs


class _NumpyEntry:
    __slots__ = ("_dtype", "_shape", "_strides", "_fields")

    def __init__(self, array: Any, outputs: Outputs):
        self._dtype, self._shape, self._strides, self._fields = array.dtype, array.shape, array.strides, outputs[2:7]

    def outputs_of(self, name: str, array: Any, copy: bool | None) -> Outputs | None:
        if (
            type(array) is not _ndarray()
            or array.dtype != self._dtype
            or array.shape != self._shape
            or array.strides != self._strides
        ):
            return None
        if is_own := copy is None:
            array = array.copy(order="K")
        return Outputs(array, array.__array_interface__["data"][0], *self._fields, is_own=is_own)


BatchCache = Sequence[Union[_TorchEntry, _NumpyEntry]]


def _ndarray() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.ndarray


def batch_cache_of(tensors: Sequence[object], outputs: Sequence[Outputs]) -> BatchCache | None:
    """
    The cache of a validated batch. None if a tensor was converted, came through DLPack or an interface, or has samples
    of different shapes.
    """
    entries: list[_TorchEntry | _NumpyEntry] = []
    for tensor, each in zip(tensors, outputs):
        if each.samples is not None:
            return None
        if 0 in each.shape or each.owner is not tensor and not _is_same_but_copied(tensor, each):
            return None
        if type(tensor) is _ndarray():
            entries.append(_NumpyEntry(tensor, each))
        elif is_torch(tensor):
            entries.append(_TorchEntry(tensor, each))
        else:
            return None
    return entries


def _is_same_but_copied(tensor: Any, outputs: Outputs) -> bool:
    """Whether the copy has the order of the tensor, so that others like it need no conversion."""
    if not outputs.is_own or outputs.device != "cpu":
        return False
    if type(tensor) is _ndarray():
        return order_of_numpy(tensor) == outputs.order
    return is_torch(tensor) and order_of(tuple(tensor.shape), tensor.stride()) == outputs.order


def outputs_from_cache(
    cache: BatchCache, names: Sequence[str], tensors: Sequence[object], copy: bool | None
) -> list[Outputs] | None:
    """
    `copy`: False, or None to copy arrays whose changes can stay undetected. Returns None if a tensor's kind or the
    number of tensors differs from the cached batch. Errors: BadArgument for freed memory.
    """
    if len(cache) != len(tensors):
        return None
    given = []
    for known, name, tensor in zip(cache, names, tensors):
        outputs = known.outputs_of(name, tensor, copy)
        if outputs is None:
            return None
        given.append(outputs)
    return given
