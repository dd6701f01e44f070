"""What is submitted: arrays of NumPy and tensors of PyTorch, known by their public attributes. Neither package is imported here."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Sequence

from offramp._dtypes import ALL, DType, array_type, dtype_of
from offramp._errors import BadArgument


_OF_NUMPY = {array_type(dtype): dtype for dtype in ALL if dtype.name != "bfloat16"}


class Outputs(NamedTuple):
    """One tensor as the library wants it: row-major, its first sample at `address` on `device`."""

    owner: Any          # keeps the memory
    address: int
    dtype: DType
    shape: tuple[int, ...]
    device: str         # "cpu", "cuda:0"


def outputs_of(name: str, given: object, copy: bool) -> Outputs:
    """
    Of a NumPy array or a torch.Tensor, or of a copy of it, made on the stream that is current. Errors: TypeError and BadArgument, which say what
    to call.
    """
    if callable(getattr(given, "data_ptr", None)) and hasattr(given, "layout"):
        return _of_torch(name, given, copy)
    if isinstance(getattr(given, "__array_interface__", None), dict) and hasattr(given, "dtype"):
        return _of_numpy(name, given, copy)
    raise TypeError(f"'{name}' is of type {type(given).__module__}.{type(given).__qualname__}. Submit a NumPy array or a torch.Tensor")


def _of_numpy(name: str, array: Any, copy: bool) -> Outputs:
    dtype = _OF_NUMPY.get(array.dtype.str)
    if dtype is None:       # ml_dtypes' bfloat16, or none of ours
        if array.dtype.str.startswith(">"):
            raise TypeError(f"'{name}' has big-endian elements. Submit array.astype(array.dtype.newbyteorder('='))")
        dtype = _dtype(name, array.dtype.name)
    if copy:
        array = array.copy(order="C")
    _require_rows(name, array.shape)
    if not array.flags.c_contiguous:
        raise BadArgument(f"'{name}' is not contiguous. Submit numpy.ascontiguousarray(array)")
    return Outputs(array, array.__array_interface__["data"][0], dtype, tuple(array.shape), "cpu")


def _of_torch(name: str, tensor: Any, copy: bool) -> Outputs:
    if str(tensor.layout) != "torch.strided" or getattr(tensor, "is_nested", False):
        raise TypeError(f"'{name}' is sparse or nested. Submit tensor.to_dense(), or one of padded rows")
    if getattr(tensor, "is_quantized", False):
        raise TypeError(f"'{name}' is quantised. Submit tensor.dequantize(), or tensor.int_repr()")
    if callable(getattr(tensor, "full_tensor", None)):
        raise TypeError(f"'{name}' is spread over several devices. Submit tensor.to_local(), or tensor.full_tensor()")
    dtype = _dtype(name, tensor.dtype)
    if tensor.requires_grad:
        raise BadArgument(f"'{name}' is part of a graph of gradients. Submit tensor.detach(), or compute under torch.inference_mode()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise BadArgument(f"'{name}' is on the device '{tensor.device}'. Submit tensor.cpu(), or one on a CUDA device")
    if tensor.is_neg() or tensor.is_conj():
        raise BadArgument(f"'{name}' is a view whose sign is pending. Submit tensor.resolve_neg()")
    if copy:
        tensor = tensor.clone(memory_format=_torch().contiguous_format)
    _require_rows(name, tensor.shape)
    if not tensor.is_contiguous():
        raise BadArgument(f"'{name}' is not contiguous. Submit tensor.contiguous()")
    device = "cpu" if tensor.device.type == "cpu" else f"cuda:{tensor.device.index}"
    return Outputs(tensor, tensor.data_ptr(), dtype, tuple(tensor.shape), device)


def _dtype(name: str, given: object) -> DType:
    try:
        return dtype_of(given)
    except TypeError as problem:
        raise TypeError(f"'{name}': {problem}") from None


def _require_rows(name: str, shape: Sequence[int]) -> None:
    if len(shape) == 0:
        raise BadArgument(f"'{name}' has no dimensions. Dimension 0 counts the batch's samples: submit one of shape (1,)")
    if 0 in shape:
        raise BadArgument(f"'{name}' of shape {tuple(shape)} is empty. Submit 1 sample or more")


def stream_of(given: object, outputs: list[Outputs]) -> int | None:
    """
    The handle of a stream: a number, a torch.cuda.Stream, a cupy.cuda.Stream; without one, that which PyTorch uses now on the outputs' device.
    """
    if outputs[0].device == "cpu":
        return None
    if given is None:
        cuda = _torch().cuda
        if cuda.is_current_stream_capturing():
            raise BadArgument("a CUDA graph is being captured: nothing of it has been computed. Submit its outputs after a replay")
        return cuda.current_stream(outputs[0].owner.device).cuda_stream or None
    for attribute in ("cuda_stream", "ptr"):
        given = getattr(given, attribute, given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise TypeError(f"a stream of type {type(given).__qualname__}. Give a torch.cuda.Stream, or the number of a cudaStream_t")
    return given or None


def _torch() -> Any:
    """The caller's: it has made the tensor that was given."""
    return sys.modules["torch"]
