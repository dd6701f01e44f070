"""What a consumer gets: one slab, its samples, and views of its tensors."""

from __future__ import annotations

import ctypes
import gc
import importlib
import math
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple

from offramp import _abi
from offramp._dtypes import DType, array_type, bfloat16_of_numpy, dtype_of_codes
from offramp._errors import TurnOver
from offramp._memory import Mapping as _Mapping
from offramp._memory import Mappings

if TYPE_CHECKING:
    import numpy


_OVER = "the slab's turn is over, and its memory holds something else by now. Use it before the next one is asked for, and copy what is to be kept"


class Sample(NamedTuple):
    """One sample of a batch; stays valid after the slab's turn."""

    key: str    # names its results
    item: int   # its number in the producer's input
    batch: int
    row: int    # of dimension 0 of each of the slab's tensors


class TensorInfo(NamedTuple):
    """What one of the slab's tensors is like: `shape[0]` counts the slab's samples, empty rows included; strides are in elements."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Bytes:
    """What each view of a tensor holds in the end, so that a weak reference tells whether there is one. Keeps the mapping."""

    def __init__(self, mapping: _Mapping | None, address: int, info: TensorInfo):
        self._mapping = mapping
        size = info.dtype.bits // 8
        self.__array_interface__ = {"version": 3, "data": (address, True), "typestr": array_type(info.dtype), "shape": info.shape,
                                    "strides": tuple(stride * size for stride in info.strides)}


def _size_of(info: TensorInfo) -> int:
    return math.prod(info.shape) * info.dtype.bits // 8


class Slab:
    """
    One slab, for the time of its turn: from when a loop or a function gets it until the loop asks for the next one, or the function returns.

    `slab["logits"]` is a read-only NumPy array over the shared memory, without a copy; copy what is to be kept. `for sample, values in slab:`
    gives each sample with its row, or with a mapping from names to rows where the slab has several tensors; rows that mean nothing are left out.
    `slab.torch("logits")` is the same as a torch.Tensor.

    Borrows: the slab's memory. Thread: any, one at a time. Errors: TurnOver for every use after the turn.
    """

    def __init__(self, library: Any, consumer: ctypes.c_void_p | None, given: _abi.Slab, mappings: Mappings):
        """For Consumer and processors alone. `library`: what has the calls of a consumer that a slab makes."""
        self._library, self._consumer, self._given = library, consumer, given
        self._mappings: Mappings | None = mappings
        self._turn = threading.RLock()
        self._over = False
        self._infos: tuple[TensorInfo, ...] | None = None
        self._samples: tuple[Sample, ...] | None = None
        self._arrays: dict[str, numpy.ndarray] = {}
        self._of_torch: dict[str, Any] = {}
        self._views: list[tuple[str, weakref.ref[_Bytes]]] = []
        self.name = given.name.decode(errors="replace")     # of what fills the slabs: Egress(name=)

    def __repr__(self) -> str:
        return f"<offramp.Slab, {'after its turn' if self._over else ', '.join(info.name for info in self.tensors)}>"

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Those whose rows mean something, in the order of their rows."""
        self._require_turn()
        if self._samples is None:
            size = self._given.sample_size
            every = (_abi.Sample.from_address(self._given.samples + index * size) for index in range(self._given.sample_count))
            self._samples = tuple(Sample(ctypes.string_at(one.key, one.key_bytes).decode(errors="replace"), one.item, one.batch, one.row)
                                  for one in every if not one.empty)
        return self._samples

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Name, type, shape and strides of each, in the producer's order. Needs no NumPy."""
        self._require_turn()
        if self._infos is None:
            self._infos = tuple(self._info_of(self._tensor(index)) for index in range(self._given.tensor_count))
        return self._infos

    def __len__(self) -> int:
        """How many samples mean something."""
        return len(self.samples)

    def __getitem__(self, name: str) -> numpy.ndarray:
        """
        The tensor of this name: read-only, in its producer's type and strides, `shape[0]` samples with empty rows included. Errors: KeyError
        for another name; TypeError for bfloat16 without the package ml_dtypes; ModuleNotFoundError without NumPy.
        """
        self._require_turn()
        if name not in self._arrays:
            self._arrays[name] = self._view_of(self._index_of(name))
        return self._arrays[name]

    def torch(self, name: str) -> Any:
        """
        The same as a torch.Tensor of the CPU over the shared memory, without a copy, bfloat16 included; needs no NumPy. PyTorch has no tensors that are
        only read, and the memory is: a write into it is a SIGSEGV, which ends the process. Clone what is to be changed or kept. Errors: KeyError for
        another name; TypeError where this PyTorch lacks the type; ModuleNotFoundError without PyTorch.
        """
        self._require_turn()
        if name not in self._of_torch:
            self._of_torch[name] = self._torch_view_of(self._index_of(name))
        return self._of_torch[name]

    def __iter__(self) -> Iterator[tuple[Sample, numpy.ndarray | Mapping[str, numpy.ndarray]]]:
        arrays = {info.name: self[info.name] for info in self.tensors}
        only = next(iter(arrays.values())) if len(arrays) == 1 else None
        for sample in self.samples:
            self._require_turn()
            yield sample, only[sample.row] if only is not None else {name: array[sample.row] for name, array in arrays.items()}

    def progress(self) -> None:
        """Says that this consumer is at work: call it at least once in the run's visibility timeout, 30 s where nobody chose another."""
        with self._turn:
            self._require_turn()
            self._library.offramp_consumer_progress(self._consumer)

    def still_current(self) -> bool:
        """
        Before a commit: whether the slab is still this consumer's to commit; where it is not, another one does the work. Never needed to be
        correct.
        """
        with self._turn:
            self._require_turn()
            return int(self._library.offramp_consumer_still_current(self._consumer)) == 1

    def _require_turn(self) -> None:
        if self._over:
            raise TurnOver(_OVER)

    def _tensor(self, index: int) -> _abi.Tensor:
        return _abi.Tensor.from_address(self._given.tensors + index * self._given.tensor_size)

    def _info_of(self, tensor: _abi.Tensor) -> TensorInfo:
        return TensorInfo(tensor.name.decode(errors="replace"), dtype_of_codes(tensor.dtype.code, tensor.dtype.bits),
                          tuple(tensor.shape[:tensor.dims]), tuple(tensor.strides[:tensor.dims]))

    def _index_of(self, name: str) -> int:
        names = [info.name for info in self.tensors]
        if name not in names:
            raise KeyError(f"the slab has no tensor '{name}'. It has {', '.join(names)}")
        return names.index(name)

    def _view_of(self, index: int) -> numpy.ndarray:
        import numpy

        info = self.tensors[index]
        wider = bfloat16_of_numpy() if info.dtype.name == "bfloat16" else None
        size = _size_of(info)
        if size == 0:
            array = numpy.empty(info.shape, array_type(info.dtype))
            array.flags.writeable = False
        else:
            mappings = self._mappings
            if mappings is None:        # another thread has ended the turn meanwhile
                raise TurnOver(_OVER)
            data = _Bytes(*mappings.find(self._tensor(index).data, size), info=info)
            array = numpy.asarray(data)
            self._views.append((info.name, weakref.ref(data)))
        return array if wider is None else array.view(wider)

    def _torch_view_of(self, index: int) -> Any:
        torch: Any = importlib.import_module("torch")      # type checkers need not have it

        info = self.tensors[index]
        dtype = getattr(torch, info.dtype.name, None)
        if dtype is None:
            raise TypeError(f"PyTorch {torch.__version__} has no {info.dtype}. Use slab['{info.name}'], or a newer one")
        size = _size_of(info)
        if size == 0:
            return torch.empty(info.shape, dtype=dtype)
        if (mappings := self._mappings) is None:
            raise TurnOver(_OVER)
        mapping, address = mappings.find(self._tensor(index).data, size)
        data: Any = (ctypes.c_char * size).from_address(address)
        data.mapping = mapping      # kept, as long as a tensor shows it
        self._views.append((info.name, weakref.ref(data)))
        return torch.frombuffer(data, dtype=dtype).as_strided(info.shape, info.strides)

    def _end(self) -> None:
        """The turn is over; called once by whoever had the slab."""
        with self._turn:
            self._over = True
            self._arrays.clear()
            self._of_torch.clear()
            self._mappings = None

    def _kept_view(self) -> str | None:
        """The name of a tensor of which somebody has a view after the turn."""
        if any(view() is not None for _, view in self._views):
            gc.collect()
        return next((name for name, view in self._views if view() is not None), None)
