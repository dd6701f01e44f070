"""Properties of PyTorch tensors, through public attributes. PyTorch is never imported here."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, ContextManager

from offramp._errors import BadArgument


_plain_tensor_types: set[type] = set()  # known not to be a DTensor


def torch_of_the_caller() -> Any:
    """The imported PyTorch, which created the given tensor."""
    return sys.modules["torch"]


def is_torch(given: object) -> bool:
    return callable(getattr(given, "data_ptr", None)) and hasattr(given, "layout")


def require_dense(name: str, tensor: Any) -> None:
    """Errors: BadArgument, which names the call to make."""
    if getattr(tensor, "is_nested", False):
        raise BadArgument(f"'{name}' is a nested tensor. Submit list(tensor.unbind())")
    if str(tensor.layout) != "torch.strided":
        raise BadArgument(f"'{name}' is sparse. Submit tensor.to_dense()")
    if getattr(tensor, "is_quantized", False):
        raise BadArgument(f"'{name}' is quantised. Submit tensor.dequantize(), or tensor.int_repr()")
    kind = type(tensor)
    if kind not in _plain_tensor_types:
        if hasattr(kind, "full_tensor"):
            raise BadArgument(
                f"'{name}' is spread over several devices. Submit tensor.to_local(), or tensor.full_tensor()"
            )
        _plain_tensor_types.add(kind)


class Kind:
    """The properties of a validated tensor, except shape and strides, that make others like it valid."""

    __slots__ = ("_type", "_layout", "_dtype", "_device")

    def __init__(self, tensor: Any):
        self._type, self._layout, self._dtype, self._device = type(tensor), tensor.layout, tensor.dtype, tensor.device

    def matches(self, tensor: Any) -> bool:
        return (
            type(tensor) is self._type
            and tensor.layout is self._layout
            and not tensor.is_nested
            and tensor.dtype is self._dtype
            and tensor.device == self._device
            and not tensor.requires_grad
            and not tensor.is_neg()
        )


def on_stream(stream: object, device: Any) -> ContextManager[object]:
    """
    A context that runs PyTorch's work on this stream: a torch.cuda.Stream or a handle. Default: the current stream.
    """
    if stream is None or device.type == "cpu":
        return contextlib.nullcontext()
    cuda = torch_of_the_caller().cuda
    if not isinstance(stream, cuda.Stream):
        handle = handle_of(stream)
        stream = cuda.ExternalStream(handle, device=device) if handle else cuda.default_stream(device)
    context: ContextManager[object] = cuda.stream(stream)
    return context


def wait_for_device_copy_into(tensor: Any) -> None:
    """A copy off a GPU into page-locked memory may be in progress, on PyTorch's current stream."""
    if tensor.device.type == "cpu":
        cuda = torch_of_the_caller().cuda
        if cuda.is_initialized() and tensor.is_pinned():
            cuda.current_stream().synchronize()


def handle_of(stream: object) -> int:
    """The handle of a number, a torch.cuda.Stream or a cupy.cuda.Stream; 0 is the legacy stream."""
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 0:
        raise BadArgument(
            f"a stream of type {type(stream).__qualname__} is not supported. Give a torch.cuda.Stream, or the number of a cudaStream_t"
        )
    return stream


def current_stream(device: Any) -> int:
    cuda = torch_of_the_caller().cuda
    if cuda.is_current_stream_capturing():
        raise BadArgument(
            "a CUDA graph is being captured, so its outputs are not computed yet. Submit them after a replay"
        )
    return int(cuda.current_stream(device).cuda_stream)


class Memory:
    """
    Detects changes of a submitted tensor, and holds its memory. PyTorch counts writes per storage, so writes are
    detected only if the tensor fills its storage. Tensors of inference mode have no count.
    """

    __slots__ = ("_tensor", "_storage", "_address", "_bytes", "_version")

    def __init__(self, name: str, tensor: Any, address: int, element_bytes: int):
        self._tensor, self._address, self._storage = tensor, address, tensor.untyped_storage()
        self._bytes = self._storage.nbytes()
        tensor_bytes = tensor.numel() * element_bytes
        if self._bytes != tensor_bytes and self._bytes < tensor.storage_offset() * element_bytes + tensor_bytes:
            raise BadArgument(
                f"the memory of '{name}' was freed or made smaller: it has {self._bytes} bytes. Submit the tensor before its storage is resized"
            )
        self._version = None if self._bytes != tensor_bytes or tensor.is_inference() else tensor._version

    @property
    def sees_all_writes(self) -> bool:
        """Whether PyTorch in this process alone can write to the memory, and counts it. A NumPy view ends that."""
        return self._version is not None and self._storage.resizable() and not self._storage.is_shared()

    def changed(self) -> str | None:
        """How the tensor changed; None if it did not."""
        if self._storage.nbytes() != self._bytes:
            return "freed or resized"
        if (
            self._version is not None
            and self._tensor._version != self._version
            and self._tensor.data_ptr() == self._address
        ):
            return "written to"
        return None
