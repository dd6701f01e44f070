"""
Submitted arrays: PyTorch tensors, NumPy arrays and objects with an exchange interface. Imports no package except NumPy.
"""

from __future__ import annotations

import array as arrays
import contextlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence  # typing's are slow in isinstance()
from typing import Any, NamedTuple

from offramp._dtypes import OF_ARRAY_TYPE, ArrayInterface, DType, dtype_of
from offramp._errors import BadArgument
from offramp._exchange import Exchanged, attribute, of_cuda_interface, of_dlpack, outcome
from offramp._order import ROW_MAJOR, Layout, Order, Shape, order_of, outermost_first
from offramp._torch import (
    Memory,
    current_stream,
    handle_of,
    is_torch,
    on_stream,
    require_dense,
    torch_of_the_caller,
    wait_for_device_copy_into,
)


ONLY = "output"  # the name of a tensor submitted without a name
_known: dict[Any, DType] = {}  # by other packages' dtypes


class Samples(NamedTuple):
    """What differs between a tensor's samples, which are row-major."""

    extents: arrays.array[int]  # of each sample, those of the tensor's dimensions that are None
    addresses: arrays.array[int] | None = None  # of each sample; None: one follows another
    memories: Sequence[Memory] = ()  # of samples with their own address
    writers: Sequence[Outputs] = ()  # of these, one for each stream


class Outputs(NamedTuple):
    """
    One tensor in the library's form: dense samples in one order, the first at `address` on `device`. With `samples`:
    samples of different shapes.
    """

    owner: Any  # keeps the memory alive
    address: int
    dtype: DType
    shape: Shape  # None: samples differ in this dimension
    device: str  # "cpu", "cuda:0"
    order: Order = ROW_MAJOR
    stream: int | None = None  # writes the tensor; default: PyTorch's current stream
    memory: Memory | None = None  # detects changes
    samples: Samples | None = None
    is_own: bool = False  # a copy that only the Egress has

    @property
    def rows(self) -> int:
        return self.shape[0] or 0

    @property
    def may_change_unseen(self) -> bool:
        """Whether writes to it, in the CPU's memory, can stay undetected."""
        return (
            self.device == "cpu"
            and not self.is_own
            and 0 not in self.shape
            and (self.memory is None or not self.memory.sees_all_writes)
        )


def named_tensors(outputs: object) -> Mapping[str, object]:
    """
    A batch's tensors by name. Nested mappings and tuples are flattened: "hidden_states.0". None is left out. Errors:
    BadArgument.
    """
    if type(outputs) is dict and not any(
        each is None or isinstance(each, (tuple, Mapping)) for each in outputs.values()
    ):
        return outputs
    named: dict[str, object] = {}
    for name, tensor in _flatten("", outputs):
        if name in named:
            raise BadArgument(f"two tensors of the batch have the name '{name}'. Rename one of them")
        named[name] = tensor
    return named


def _flatten(prefix: str, outputs: object) -> Iterator[tuple[str, object]]:
    if outputs is None:
        return
    if not isinstance(outputs, (Mapping, tuple)):
        yield prefix or ONLY, outputs
        return
    for name, each in parts_of(outputs):
        yield from _flatten(f"{prefix}.{name}" if prefix else str(name), each)


def parts_of(outputs: object) -> Iterable[tuple[Any, Any]]:
    """The entries of a mapping or tuple, by name; none of other objects."""
    if isinstance(outputs, Mapping):
        return outputs.items()
    if isinstance(outputs, tuple):
        return zip(getattr(outputs, "_fields", range(len(outputs))), outputs)
    return ()


def outputs_of(
    name: str, given: Any, copy: bool | None, layout: Layout | None = None, stream: object = None
) -> Outputs:
    """
    Validates an array. Uses its memory if it is in the layout's order, or dense without a layout. Otherwise, or with
    `copy`, copies it on the stream that writes it. `copy=None`: also if writes to it can stay undetected. Errors:
    BadArgument; the message names the call to make.
    """
    if is_torch(given):
        return _of_torch(name, given, copy, layout, stream)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(given, numpy.ndarray):
        return _of_numpy(name, given, copy, layout)
    if (interface := attribute(given, "__cuda_array_interface__")) is not None:
        return _of_exchanged(name, given, of_cuda_interface(name, given, interface), copy, layout, stream)
    if callable(attribute(given, "__dlpack__")) and callable(attribute(given, "__dlpack_device__")):
        return _of_exchanged(name, given, of_dlpack(name, given), copy, layout, stream)
    return _of_numpy(name, _through_numpy(name, given), copy, layout)


def _of_numpy(name: str, array: Any, copy: bool | None, layout: Layout | None) -> Outputs:
    if callable(getattr(array, "filled", None)):
        raise BadArgument(f"'{name}' is a masked array. Submit array.filled(VALUE)")
    dtype = OF_ARRAY_TYPE.get(array.dtype.str)
    if dtype is None:  # bfloat16 of ml_dtypes, or unsupported
        if array.dtype.str.startswith(">"):
            raise BadArgument(f"'{name}' has big-endian elements. Submit array.astype(array.dtype.newbyteorder('='))")
        dtype = _dtype(name, array.dtype.name)
    shape = tuple(array.shape)
    _require_rows(name, shape, layout)
    actual = order_of_numpy(array)
    order = _order_for(layout, shape, actual)
    is_own = _copies_unseen(copy, shape) or actual != order
    if is_own:
        array = _copied_by_numpy(array, order)
    return Outputs(array, array.__array_interface__["data"][0], dtype, shape, "cpu", order, is_own=is_own)


def _copies_unseen(copy: bool | None, shape: tuple[int, ...]) -> bool:
    """Whether to copy memory of the CPU whose changes stay undetected."""
    return bool(shape) and 0 not in shape if copy is None else copy


def _copied_by_numpy(array: Any, order: Order) -> Any:
    return _numpy().asarray(array).transpose(outermost_first(order, array.ndim)).copy(order="C")


def _order_for(layout: Layout | None, shape: tuple[int, ...], actual: Order | None) -> Order:
    required = None if layout is None else layout.order_for(shape)
    return (actual or ROW_MAJOR) if required is None else required


def order_of_numpy(array: Any) -> Order | None:
    """None: it has gaps, or elements that are not aligned to each other."""
    if array.flags.c_contiguous:
        return ROW_MAJOR
    shape, strides, size = array.shape, array.strides, array.itemsize
    if any(stride % size for extent, stride in zip(shape, strides) if extent > 1):
        return None
    return order_of(shape, [stride // size for stride in strides])


def _through_numpy(name: str, given: Any) -> Any:
    """A NumPy array without a copy, through the buffer protocol or NumPy's array interface."""
    numpy = _numpy()
    if numpy is not None:
        has_interface = isinstance(attribute(given, "__array_interface__"), dict)
        array, problem = outcome(lambda: numpy.asarray(given if has_interface else memoryview(given)))
        if problem is None:
            return array
        if not isinstance(problem, (TypeError, ValueError, BufferError)):
            raise problem
    raise BadArgument(
        f"'{name}' is of type {type(given).__module__}.{type(given).__qualname__}. Submit a NumPy array or a torch.Tensor"
        + ("; other objects need NumPy, which is not installed" if numpy is None else "")
        + (". For one tensor per sample, submit a list: list(...)" if isinstance(given, (tuple, Iterator)) else "")
    )


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _of_torch(name: str, tensor: Any, copy: bool | None, layout: Layout | None, stream: object) -> Outputs:
    require_dense(name, tensor)
    dtype = _dtype(name, tensor.dtype)
    if tensor.device.type not in ("cpu", "cuda"):
        raise BadArgument(f"'{name}' is on the device '{tensor.device}'. Submit tensor.cpu(), or one on a CUDA device")
    shape = tuple(tensor.shape)
    _require_rows(name, shape, layout)
    if tensor.requires_grad:
        tensor = tensor.detach()
    actual = ROW_MAJOR if tensor.is_contiguous() else order_of(shape, tensor.stride())
    order = _order_for(layout, shape, actual)
    device = "cpu" if tensor.device.type == "cpu" else f"cuda:{tensor.device.index}"
    if not copy and actual == order and not tensor.is_neg():
        address = tensor.data_ptr()
        # an empty one has nothing to change
        memory = None if 0 in shape else Memory(name, tensor, address, dtype.bits // 8)
        given = Outputs(tensor, address, dtype, shape, device, order, memory=memory)
        if copy is False or not given.may_change_unseen:
            return given
    made = _copied(tensor, order, stream)
    return Outputs(_with_sources(made, tensor, stream), made.data_ptr(), dtype, shape, device, order, is_own=True)


def _with_sources(made: Any, sources: Any, stream: object) -> Any:
    """
    The owner of a copy. On a GPU it keeps the sources: PyTorch's allocator knows only the stream that created them, and
    here another one may read them.
    """
    return made if stream is None or made.device.type == "cpu" else (made, sources)


def _copied(tensor: Any, order: Order, stream: object) -> Any:
    wait_for_device_copy_into(tensor)
    with on_stream(stream, tensor.device):
        if order != ROW_MAJOR:
            tensor = tensor.permute(outermost_first(order, tensor.dim()))
        return tensor.clone(memory_format=torch_of_the_caller().contiguous_format)


def _of_exchanged(
    name: str, given: Any, array: Exchanged, copy: bool | None, layout: Layout | None, stream: object
) -> Outputs:
    _require_rows(name, array.shape, layout)
    if array.strides is None or not array.shape or 0 in array.shape:
        actual: Order | None = ROW_MAJOR
    else:
        actual = order_of(array.shape, array.strides) if array.strides else None
    order = _order_for(layout, array.shape, actual)
    copy = _copies_unseen(copy, array.shape) if array.device == "cpu" else bool(copy)
    if not copy and actual == order:
        return Outputs(array.owner, array.address, array.dtype, array.shape, array.device, order, array.stream)
    if array.device == "cpu":
        if _numpy() is None:
            raise BadArgument(
                f"'{name}' must be copied first, because the loop may write to it, or the run has another layout, and NumPy is not installed. Install "
                "it; or submit a dense array with copy=False"
            )
        interface = ArrayInterface(array.owner, array.address, array.dtype, array.shape, array.strides)
        made = _copied_by_numpy(_numpy().asarray(interface), order)
        address = made.__array_interface__["data"][0]
        return Outputs(made, address, array.dtype, array.shape, "cpu", order, is_own=True)
    return _copied_on_the_device(name, given, array, order, stream)


def concatenated(each: Sequence[Outputs], stream: object) -> Outputs | None:
    """
    A copy of row-major arrays of one type and device, one after another, made on the stream that writes them. None if
    the caller must copy each: on a device without PyTorch.
    """
    first, numpy = each[0], _numpy()
    if all(is_torch(array.owner) for array in each):
        flat_tensors = [array.owner.reshape(-1) for array in each]
        # `out` keeps the type also under autocast
        with on_stream(stream, flat_tensors[0].device):
            made = torch_of_the_caller().cat(flat_tensors, out=flat_tensors[0].new_empty(0))
        owner = _with_sources(made, flat_tensors, stream)
        return first._replace(owner=owner, address=made.data_ptr(), memory=None, is_own=True)
    if first.device != "cpu" or numpy is None:
        return None
    flat = [
        ArrayInterface(array.owner, array.address, array.dtype, (elements,))
        for array in each
        if (elements := math.prod(extent or 0 for extent in array.shape))
    ]
    made = numpy.concatenate(flat) if flat else numpy.empty(0, "uint8")
    return first._replace(owner=made, address=made.__array_interface__["data"][0], memory=None, is_own=True)


def _copied_on_the_device(name: str, given: Any, array: Exchanged, order: Order, stream: object) -> Outputs:
    """Copies with PyTorch or CuPy, whichever the program imported, on the given or the array's stream."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    on = array.stream if stream is None else stream
    if torch is not None:
        device = torch.device(array.device)
        with on_stream(on, device):
            tensor = (
                torch.from_dlpack(given)
                if callable(attribute(given, "__dlpack__"))
                else torch.as_tensor(given, device=device)
            )
            made = _copied(tensor, order, None)
        address = made.data_ptr()
    elif cupy is not None:
        made = _copied_by_cupy(cupy, given, array, order, None if on is None else handle_of(on))
        address = made.data.ptr
    else:
        raise BadArgument(
            f"'{name}' must be copied first (copy=True, or another layout than the run's), and neither torch nor cupy is imported to copy it on the "
            "device. Submit a dense array that nothing writes to (cupy.ascontiguousarray(array)), or import torch or cupy before"
        )
    return Outputs((made, array.owner), address, array.dtype, array.shape, array.device, order, array.stream)


def _copied_by_cupy(cupy: Any, given: Any, array: Exchanged, order: Order, stream: int | None) -> Any:
    device = int(array.device.rpartition(":")[2])
    with (
        cupy.cuda.Device(device),
        contextlib.nullcontext() if stream is None else cupy.cuda.ExternalStream(stream, device),
    ):
        array_of_cupy = (
            cupy.from_dlpack(given) if attribute(given, "__cuda_array_interface__") is None else cupy.asarray(given)
        )
        transposed = (
            array_of_cupy if order == ROW_MAJOR else array_of_cupy.transpose(outermost_first(order, array_of_cupy.ndim))
        )
        return cupy.array(transposed, order="C", copy=True)


def _dtype(name: str, given: Any) -> DType:
    dtype = _known.get(given)
    if dtype is None:
        try:
            dtype = _known[given] = dtype_of(given)
        except BadArgument as problem:
            raise BadArgument(f"'{name}': {problem}") from None
    return dtype


def _require_rows(name: str, shape: tuple[int, ...], layout: Layout | None) -> None:
    """With a layout whose samples differ, each may be empty; if it has no dimension 0, `shape` is of one sample."""
    if len(shape) == 0 and (layout is None or layout.shape[0] is not None):
        raise BadArgument(
            f"'{name}' has no dimensions. Dimension 0 counts the batch's samples: submit a tensor of shape (1,)"
        )
    never_empty = shape if layout is None or not layout.varies else () if layout.shape[0] is None else shape[:1]
    if 0 in never_empty:
        raise BadArgument(f"'{name}' of shape {shape} is empty. Give every dimension at least 1 element")


def stream_of(given: object, outputs: list[Outputs]) -> int | None:
    """
    The handle of the given stream (a number, a torch.cuda.Stream or a cupy.cuda.Stream). Default: the arrays' stream,
    else PyTorch's current one.
    """
    handle = None if given is None else handle_of(given)  # validated for the CPU too, which does not use it
    if outputs[0].device == "cpu":
        return None
    if handle is not None:
        return handle or None
    writers = [writer for each in outputs for writer in (each.samples.writers if each.samples else None) or (each,)]
    streams = {current_stream(each.owner.device) if each.stream is None else each.stream for each in writers}
    if len(streams) > 1:
        raise BadArgument(
            f"the tensors of one batch are written on several streams: {', '.join(map(hex, sorted(streams)))}. Let one of them wait for the others, and "
            "pass it: submit(..., stream=)"
        )
    return streams.pop() or None
