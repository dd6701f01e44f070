"""A slab as a consumer sees it: its samples and views of its tensors."""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import json
import math
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple, Sequence

from offramp import _abi
from offramp._dtypes import ArrayInterface, DType, array_type, bfloat16_of_numpy, dtype_of_codes
from offramp._errors import BadArgument, NoSuchTensor, TurnOver
from offramp._memory import Mapping as _Mapping
from offramp._memory import Mappings
from offramp._order import ROW_MAJOR, strides_of

if TYPE_CHECKING:
    import numpy


_OVER = "the slab's turn is over, and its memory may hold other data. Use it before you ask for the next one, and copy data that you keep"


class Sample(NamedTuple):
    """One sample of a batch; stays valid after the slab's turn."""

    key: str  # names its results
    item: int  # its number in the producer's input
    batch: int
    row: int  # in dimension 0 of each tensor of the slab
    metadata_json: str = ""  # its metadata as JSON; "": none

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the metadata that the producer submitted with the sample; {}: none."""
        return dict(json.loads(self.metadata_json)) if self.metadata_json else {}


class TensorInfo(NamedTuple):
    """
    Description of one tensor of a slab: `shape[0]` counts its samples, including empty rows; strides are in elements.
    Where samples differ, the shape has None. These samples are row-major, and `strides` is empty.
    """

    name: str
    dtype: DType
    shape: tuple[int | None, ...]
    strides: tuple[int, ...]

    @property
    def _varies(self) -> bool:
        return None in self.shape


class _Row(NamedTuple):
    """A sample of a tensor whose samples differ: its place in the span of all."""

    shape: tuple[int, ...]
    begin: int  # in elements
    end: int


def _rows_of(tensor: _abi.Tensor) -> tuple[int, int, list[_Row]]:
    """
    The samples of a tensor whose samples differ: the address of the lowest, the number of elements to the end of the
    highest, and each one's place. Reads thousands of them quickly.
    """
    count, dims, element = tensor.shape[0], tensor.dims - 1, tensor.dtype.bits // 8
    fields, extents = array.array("Q"), array.array("q")
    fields.frombytes(ctypes.string_at(tensor.rows, count * ctypes.sizeof(_abi.Row)))
    addresses, sizes, shapes = (fields[field::3] for field in range(3))
    extents.frombytes(b"".join(ctypes.string_at(shape, 8 * dims) for shape in shapes))
    lowest = min((address for address, size in zip(addresses, sizes) if size), default=0)
    highest = max((address + size for address, size in zip(addresses, sizes) if size), default=0)
    rows = []
    for address, size, shape in zip(addresses, sizes, zip(*[iter(extents)] * dims)):
        begin = (address - lowest) // element if size else 0
        rows.append(_Row(shape, begin, begin + size // element))
    return lowest, (highest - lowest) // element, rows


def _text_at(address: int, size: int) -> str:
    return ctypes.string_at(address, size).decode(errors="replace")


class Slab:
    """
    One slab, valid during its turn: until the loop asks for the next one or the function returns.

    `slab["logits"]` is a read-only NumPy array over the shared memory, without a copy. Copy data that you keep.
    `slab.torch("logits")` is the same data as a torch.Tensor. `for sample, values in slab:` yields each sample with its
    row. If the slab has several tensors, `values` maps names to rows. Empty rows are skipped. If samples differ in
    shape, `slab["logits"]` and `slab.torch("logits")` are tuples of one array per row.

    Borrows: the slab's memory. Thread: any, one at a time. Errors: TurnOver for every use after the turn.
    """

    def __init__(self, library: Any, consumer: ctypes.c_void_p | None, given: _abi.Slab, mappings: Mappings):
        """For Consumer and processors only. `library`: provides the consumer calls that a slab uses."""
        self._library, self._consumer, self._given = library, consumer, given
        self._mappings: Mappings | None = mappings
        self._lock = threading.RLock()
        self._over = False
        self._infos: tuple[TensorInfo, ...] | None = None
        self._samples: tuple[Sample, ...] | None = None
        self._arrays: dict[str, Any] = {}
        self._tensors_of_torch: dict[str, Any] = {}
        self._views: list[tuple[str, weakref.ref[Any]]] = []  # base objects, which live as long as views
        self.name = given.name.decode(errors="replace")  # Egress(name=)

    def __repr__(self) -> str:
        with self._lock:
            if self._over:
                return "<offramp.Slab, after its turn>"
            tensors = ", ".join(f"{info.name} {info.dtype} {info.shape}" for info in self.tensors)
            return f"<offramp.Slab, samples: {len(self)}, tensors: {tensors}>"

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples in the order of their rows, without empty rows."""
        self._require_turn()
        if self._samples is None:
            size = self._given.sample_size
            every = (
                _abi.Sample.from_address(self._given.samples + index * size)
                for index in range(self._given.sample_count)
            )
            self._samples = tuple(
                Sample(
                    _text_at(one.key, one.key_bytes),
                    one.item,
                    one.batch,
                    one.row,
                    _text_at(one.metadata, one.metadata_bytes) if one.metadata_bytes else "",
                )
                for one in every
                if not one.empty
            )
        return self._samples

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Name, type, shape and strides of each tensor, in the producer's order. Does not need NumPy."""
        self._require_turn()
        if self._infos is None:
            self._infos = tuple(self._info_of(self._tensor(index)) for index in range(self._given.tensor_count))
        return self._infos

    def __len__(self) -> int:
        """The number of samples, without empty rows."""
        return len(self.samples)

    def __getitem__(self, name: str) -> numpy.ndarray | Any:
        """
        Returns a tensor as a read-only array with the producer's type and strides. `shape[0]` counts empty rows too. If
        samples differ in shape: a tuple of one array per row, also of empty rows. Errors: NoSuchTensor for an unknown
        name; BadArgument for bfloat16 without the package ml_dtypes; ModuleNotFoundError without NumPy.
        """
        self._require_turn()
        if not isinstance(name, str) or name not in self._arrays:
            self._arrays[name] = self._view_of(self._index_of(name))
        return self._arrays[name]

    def torch(self, name: str) -> Any:
        """
        Returns a tensor as a torch.Tensor on the CPU over the shared memory, without a copy. Supports bfloat16 and does
        not need NumPy. If samples differ in shape: a tuple of one tensor per row. Do not write to it: PyTorch has no
        read-only tensors, and a write ends the process with SIGSEGV. Clone data that you change or keep. Errors:
        NoSuchTensor for an unknown name; BadArgument if this PyTorch lacks the type; ModuleNotFoundError without
        PyTorch.
        """
        self._require_turn()
        if not isinstance(name, str) or name not in self._tensors_of_torch:
            self._tensors_of_torch[name] = self._torch_view_of(self._index_of(name))
        return self._tensors_of_torch[name]

    def __iter__(self) -> Iterator[tuple[Sample, numpy.ndarray | Mapping[str, numpy.ndarray]]]:
        arrays = {info.name: self[info.name] for info in self.tensors}
        only = next(iter(arrays.values())) if len(arrays) == 1 else None
        for sample in self.samples:
            self._require_turn()
            yield (
                sample,
                only[sample.row] if only is not None else {name: array[sample.row] for name, array in arrays.items()},
            )

    def progress(self) -> None:
        """Reports progress. Call it more often than the run's visibility timeout (default: 30 s)."""
        with self._lock:
            self._require_turn()
            self._library.offramp_consumer_progress(self._consumer)

    def still_current(self) -> bool:
        """
        Returns whether this consumer may still commit the slab; if not, another consumer processes it. An optimization:
        commits are correct without it.
        """
        with self._lock:
            self._require_turn()
            return int(self._library.offramp_consumer_still_current(self._consumer)) == 1

    def _require_turn(self) -> None:
        if self._over:
            raise TurnOver(_OVER)

    def _tensor(self, index: int) -> _abi.Tensor:
        return _abi.Tensor.from_address(self._given.tensors + index * self._given.tensor_size)

    def _info_of(self, tensor: _abi.Tensor) -> TensorInfo:
        shape = tuple(None if extent == _abi.VARIABLE else extent for extent in tensor.shape[: tensor.dims])
        return TensorInfo(
            tensor.name.decode(errors="replace"),
            dtype_of_codes(tensor.dtype.code, tensor.dtype.bits),
            shape,
            () if None in shape else tuple(tensor.strides[: tensor.dims]),
        )

    def _index_of(self, name: str) -> int:
        names = [info.name for info in self.tensors]
        if not isinstance(name, str) or name not in names:
            raise NoSuchTensor(f"the slab has no tensor '{name}'. It has {', '.join(names)}")
        return names.index(name)

    def _view_of(self, index: int) -> Any:
        info, tensor = self.tensors[index], self._tensor(index)
        if not info._varies:
            return self._array_over(info, tensor.data, tensor.shape[: tensor.dims], info.strides)
        address, elements, rows = _rows_of(tensor)
        every = self._array_over(info, address, (elements,), (1,))
        return tuple(every[row.begin : row.end].reshape(row.shape) for row in rows)

    def _array_over(self, info: TensorInfo, address: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
        import numpy

        wider = bfloat16_of_numpy() if info.dtype.name == "bfloat16" else None
        size = math.prod(shape) * info.dtype.bits // 8
        if size == 0:
            array = numpy.empty(shape, array_type(info.dtype))
            array.flags.writeable = False
        else:
            mapping, address = self._find(address, size)
            data = ArrayInterface(mapping, address, info.dtype, shape, strides)
            array = numpy.asarray(data)
            self._views.append((info.name, weakref.ref(data)))
        return array if wider is None else array.view(wider)

    def _torch_view_of(self, index: int) -> Any:
        torch: Any = importlib.import_module("torch")  # type checkers may lack it

        info, tensor = self.tensors[index], self._tensor(index)
        dtype = getattr(torch, info.dtype.name, None)
        if dtype is None:
            raise BadArgument(
                f"PyTorch {torch.__version__} has no {info.dtype}. Use slab['{info.name}'], or a newer PyTorch"
            )
        if not info._varies:
            shape = tuple(tensor.shape[: tensor.dims])
            every = self._tensor_over(torch, info, dtype, tensor.data, math.prod(shape))
            return every.as_strided(shape, info.strides)
        address, elements, rows = _rows_of(tensor)
        every = self._tensor_over(torch, info, dtype, address, elements)
        strides = {inner: strides_of((1, *inner), ROW_MAJOR) for inner in {row.shape[1:] for row in rows}}
        # slices cost twice as much
        return tuple(every.as_strided(row.shape, strides[row.shape[1:]], row.begin) for row in rows)

    def _tensor_over(self, torch: Any, info: TensorInfo, dtype: Any, address: int, elements: int) -> Any:
        if elements == 0:
            return torch.empty(0, dtype=dtype)
        size = elements * info.dtype.bits // 8
        mapping, address = self._find(address, size)
        data: Any = (ctypes.c_char * size).from_address(address)
        data.mapping = mapping  # keeps the mapping while a tensor uses it
        self._views.append((info.name, weakref.ref(data)))
        return torch.frombuffer(data, dtype=dtype)

    def _find(self, address: int, size: int) -> tuple[_Mapping | None, int]:
        if (mappings := self._mappings) is None:  # another thread has ended the turn
            raise TurnOver(_OVER)
        return mappings.find(address, size)

    def _end(self) -> None:
        """Ends the turn. Called once."""
        with self._lock:
            self._over = True
            self._arrays.clear()
            self._tensors_of_torch.clear()
            self._mappings = None

    def _kept_view(self) -> str | None:
        """The name of a tensor that still has a view after the turn."""
        if any(view() is not None for _, view in self._views):
            gc.collect()
        return next((name for name, view in self._views if view() is not None), None)
