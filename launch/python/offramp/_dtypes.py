"""Element types: DLPack codes, NumPy type strings and common names."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from offramp._errors import BadArgument, Protocol


class DType(NamedTuple):
    """An element type: name ("float32", "bfloat16"), DLPack type code and size in bits."""

    name: str
    code: int
    bits: int

    def __str__(self) -> str:
        return self.name


ALL = tuple(
    DType(*each)
    for each in (
        ("int8", 0, 8),
        ("int16", 0, 16),
        ("int32", 0, 32),
        ("int64", 0, 64),
        ("uint8", 1, 8),
        ("uint16", 1, 16),
        ("uint32", 1, 32),
        ("uint64", 1, 64),
        ("float16", 2, 16),
        ("float32", 2, 32),
        ("float64", 2, 64),
        ("bfloat16", 4, 16),
        ("bool", 6, 8),
    )
)
_BY_NAME = {each.name: each for each in ALL}
_BY_CODE = {(each.code, each.bits): each for each in ALL}
_LETTERS = {0: "i", 1: "u", 2: "f", 6: "b"}


def dtype_of(given: object) -> DType:
    """Converts a name or a dtype of NumPy, ml_dtypes or PyTorch. Errors: BadArgument for an unsupported type."""
    if isinstance(given, DType):
        return given
    name = str(getattr(given, "__name__", given)).rpartition("torch.")[2]
    name = {"bool_": "bool", "float": "float64", "int": "int64"}.get(name, name)
    if name not in _BY_NAME:
        raise BadArgument(f"elements of type '{given}' are not supported. Convert them to one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def dtype_of_codes(code: int, bits: int) -> DType:
    if (code, bits) not in _BY_CODE:
        raise Protocol(
            f"the slab has elements of DLPack's type code {code} with {bits} bits, which this version does not support"
        )
    return _BY_CODE[code, bits]


def array_type(dtype: DType) -> str:
    """NumPy's type string; two untyped bytes for bfloat16, which NumPy lacks."""
    return (
        "<V2"
        if dtype.name == "bfloat16"
        else f"{'<' if dtype.bits > 8 else '|'}{_LETTERS[dtype.code]}{dtype.bits // 8}"
    )


OF_ARRAY_TYPE = {array_type(dtype): dtype for dtype in ALL if dtype.name != "bfloat16"}


class ArrayInterface:
    """Memory for numpy.asarray(), read-only. Keeps the owner alive. `strides`: in elements; None: row-major."""

    def __init__(
        self, owner: object, address: int, dtype: DType, shape: Sequence[int], strides: Sequence[int] | None = None
    ):
        self._owner = owner
        size = dtype.bits // 8
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "typestr": array_type(dtype),
            "shape": tuple(shape),
            "strides": None if strides is None else tuple(stride * size for stride in strides),
        }


def bfloat16_of_numpy() -> Any:
    """The type of ml_dtypes, for a slab's tensor. Errors: BadArgument without that package."""
    try:
        import ml_dtypes
    except ImportError:
        raise BadArgument(
            "NumPy has no bfloat16. Read it with slab.torch(NAME)[sample.row], for each sample in slab.samples, or install the package ml_dtypes"
        ) from None
    return ml_dtypes.bfloat16
