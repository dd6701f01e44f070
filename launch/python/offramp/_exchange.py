"""Arrays of any package, through DLPack, whose capsules ctypes reads, or the CUDA array interface."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple, TypeVar

from offramp import _abi
from offramp._dtypes import ALL, OF_ARRAY_TYPE, DType, dtype_of_codes
from offramp._errors import BadArgument, Protocol

LEGACY_STREAM = 0  # the handle; the interface uses 1 for it
_NEWEST = (1, 1)  # DLPack version that we request
_MOST_MAJOR = 1
_ON_THE_CPU, _ON_CUDA = (1, 3), (2, 13)  # DLDeviceType: plain and page-locked; plain and managed
_DEVICE_ORDINAL = 9  # CUpointer_attribute


class Exchanged(NamedTuple):
    """An array in memory: strides in elements. `stream`: the handle of the stream that writes it."""

    owner: object
    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # None: row-major; empty: not a multiple of the element size
    device: str
    stream: int


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("dtype", _abi.DTypeCode),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_KINDS = {b"dltensor": (_Managed, b"used_dltensor"), b"dltensor_versioned": (_Versioned, b"used_dltensor_versioned")}
_Result = TypeVar("_Result")
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # without the GIL, as DLPack requires
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))


def outcome(read: Callable[[], _Result]) -> tuple[_Result | None, Exception | None]:
    """
    What an object of another package gives, or the exception with which it refuses. An exception that a second attempt
    does not repeat comes from a signal handler, such as that of an alarm, and is raised.
    """
    try:
        return read(), None
    except Exception as problem:
        first = problem
    try:
        try:
            read()
        except type(first):
            return None, first.with_traceback(None)
        raise first
    finally:
        del first  # its traceback has this frame: the cycle would keep the array until a garbage collection


def attribute(given: object, name: str) -> Any:
    """The attribute, or None. Some packages raise an exception when the attribute is read."""
    return outcome(lambda: getattr(given, name, None))[0]


class _Taken:
    """The content of a capsule. Owns it: the last reference calls its deleter once, on any thread."""

    def __init__(self, address: int, deleter: int | None):
        self._address = address
        self._delete = _Deleter(deleter) if deleter else None

    def __del__(self) -> None:
        delete, self._delete = self._delete, None
        if delete is not None:
            delete(self._address)


def of_dlpack(name: str, given: Any) -> Exchanged:
    """Does not wait for any stream. Errors: BadArgument, which releases the capsule's content."""
    device, capsule = _export(name, given)
    owner, tensor = _taken(name, capsule)
    if tensor.dtype.lanes != 1:
        raise BadArgument(
            f"'{name}' has elements of {tensor.dtype.lanes} lanes. Submit one number per element, in an additional dimension"
        )
    try:
        dtype = dtype_of_codes(tensor.dtype.code, tensor.dtype.bits)
    except Protocol:
        raise BadArgument(
            f"'{name}' has elements of DLPack's type code {tensor.dtype.code} with {tensor.dtype.bits} bits, which are not supported. "
            f"Convert them to one of {', '.join(map(str, ALL))}"
        ) from None
    shape = tuple(tensor.shape[: tensor.dims])
    strides = tuple(tensor.strides[: tensor.dims]) if tensor.strides else None
    return Exchanged(owner, (tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, device, LEGACY_STREAM)


def _export(name: str, given: Any) -> tuple[str, object]:
    """The device and the capsule."""
    device, capsule, options = "cpu", None, {}
    place, problem = outcome(lambda: [int(number) for number in given.__dlpack_device__()])
    if place is not None:
        kind, index = place
        if kind not in _ON_THE_CPU + _ON_CUDA:
            raise BadArgument(
                f"'{name}' is on a device of DLPack's type {kind}. Submit an array on the CPU or on a CUDA device"
            )
        if kind in _ON_CUDA:
            device, options = f"cuda:{index}", {"stream": -1}
        _, problem = outcome(lambda: _wait_until_computed(given))
    if problem is None:
        capsule, problem = outcome(lambda: given.__dlpack__(max_version=_NEWEST, **options))
        if isinstance(problem, TypeError):  # DLPack without versions
            capsule, problem = outcome(lambda: given.__dlpack__(**options))
    if problem is not None:
        raise BadArgument(
            f"'{name}' cannot be exported through DLPack: {str(problem).rstrip('.')}. Submit a copy of it"
        ) from problem
    return device, capsule


def _wait_until_computed(given: Any) -> None:
    """
    JAX computes on private streams, and neither its DLPack nor its CUDA interface waits for these streams or names
    them.
    """
    if callable(ready := getattr(given, "block_until_ready", None)):
        ready()


def _taken(name: str, capsule: object) -> tuple[_Taken, _Tensor]:
    capsule_name = _name_of(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if capsule_name not in _KINDS:
        raise BadArgument(
            f"'{name}' exported no tensor through DLPack, but {capsule!r}. Submit a NumPy array or a torch.Tensor"
        )
    kind, used = _KINDS[capsule_name]
    address = _pointer_of(capsule, capsule_name)
    _rename(capsule, used)
    managed = kind.from_address(address)
    owner = _Taken(address, managed.deleter)
    if isinstance(managed, _Versioned) and managed.major > _MOST_MAJOR:
        raise BadArgument(
            f"'{name}' comes through DLPack {managed.major}.{managed.minor}, which is newer than the supported version {_NEWEST[0]}.{_NEWEST[1]}. "
            "Submit a torch.Tensor of it"
        )
    return owner, managed.tensor


def of_cuda_interface(name: str, given: Any, interface: Any) -> Exchanged:
    """`interface`: the array's CUDA array interface. Errors: BadArgument."""
    try:
        shape, typestr, address = (
            tuple(int(extent) for extent in interface["shape"]),
            interface["typestr"],
            int(interface["data"][0] or 0),
        )
        strides, mask, stream = interface.get("strides"), interface.get("mask"), interface.get("stream")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        raise BadArgument(
            f"'{name}' has an invalid __cuda_array_interface__: {interface!r}. Submit a torch.Tensor of it"
        ) from problem
    dtype = OF_ARRAY_TYPE.get(typestr)
    if dtype is None:
        raise BadArgument(
            f"'{name}' has elements of type '{typestr}', which is not supported. Convert them to one of {', '.join(map(str, ALL))}"
        )
    if mask is not None:
        raise BadArgument(f"'{name}' has a mask. Submit an array without one")
    if strides is not None:
        size = dtype.bits // 8
        strides = (
            ()
            if any(stride % size for extent, stride in zip(shape, strides) if extent > 1)
            else tuple(stride // size for stride in strides)
        )
    array = Exchanged(
        given, address, dtype, shape, strides, f"cuda:{_index_of(name, given, address)}", _handle_of(name, stream)
    )
    _, failed = outcome(lambda: _wait_until_computed(given))
    if failed is not None:
        raise BadArgument(
            f"'{name}' cannot be computed: {str(failed).rstrip('.')}. Submit a computed array"
        ) from failed
    return array


def _handle_of(name: str, stream: object) -> int:
    if stream is None or stream == 1:  # no stream to wait for; the legacy stream
        return LEGACY_STREAM
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 2:
        raise BadArgument(
            f"'{name}' has an invalid stream in its interface: {stream!r}. Pass the stream: submit(..., stream=)"
        )
    return stream


def _index_of(name: str, given: Any, address: int) -> int:
    if callable(device_of := getattr(given, "__dlpack_device__", None)):
        return int(device_of()[1])
    index = ctypes.c_int()
    try:
        code = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(
            ctypes.byref(index), _DEVICE_ORDINAL, ctypes.c_uint64(address)
        )
    except OSError as problem:
        raise BadArgument(f"the device of '{name}' is unknown: {problem}. Submit an array on the CPU") from problem
    if code != 0:
        raise BadArgument(
            f"'{name}' is not on a CUDA device (cuPointerGetAttribute: {code}). Submit an array on a CUDA device"
        )
    return index.value
