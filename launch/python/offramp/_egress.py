"""The producer's door: batches of a loop's outputs on their way to consumers."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import warnings
import weakref
from typing import Iterable, Mapping, Sequence

from offramp import _abi
from offramp._arrays import Outputs, outputs_of, stream_of
from offramp._dtypes import dtype_of
from offramp._errors import BadArgument, WrongProcess
from offramp._library import library, path_of
from offramp._run import WAIT_SECONDS, Figures, Layout, Run

ONLY = "output"         # the name of a tensor that is submitted without one


class Egress:
    """
    Takes batches of tensors off the device, without making it wait, and hands them to consumers of other processes.

        with offramp.Egress("run") as egress:
            for keys, images in loader:
                with torch.inference_mode():
                    logits = model(images.cuda(non_blocking=True))
                egress.submit({"logits": logits}, keys)

    `run_dir`: where consumers meet the run: absent, empty, or an earlier run's. `tensors`: of one batch, as {"logits": ("float32", (64, 21,
    512, 512))}, shape[0] being the most samples that a batch holds; without it the first batch says it. `device`: "cpu", "cuda", "cuda:1";
    without it that of the first batch. Where both are given consumers may come at once, else from the first batch on: they wait 10 s for a
    run that is not there, unless they are told otherwise.

    `name`: of what fills the slabs, for consumers. `slabs`, `samples_per_slab`: buffers in shared memory and their size. `when_full`: "wait",
    or "drop" for batches that find no free slab. `max_charges`: deaths of consumers that a slab may cause before it is set aside.
    `max_delay`: seconds that a small batch waits for others to share its slab. `visibility_timeout`: seconds without progress, before another
    consumer gets the slab, too. Whatever is 0 or empty is chosen (offramp.h).

    Leaving the context drains; leaving it by an exception abandons what consumers have not done.

    Owns: the run, the library's threads, and one of its own, which lets tensors go. Thread: any; calls take turns. Blocks: submit() while all
    slabs are full; drain(). In a forked child every call is WrongProcess: the run is the parent's. Errors: Error and its kinds.
    """

    def __init__(self, run_dir: str | os.PathLike[str], tensors: Mapping[str, tuple[object, Sequence[int]]] | None = None,
                 device: str | None = None, *, name: str = "", run_id: str = "", slabs: int = 0, samples_per_slab: int = 0, max_key_bytes: int = 0,
                 max_consumers: int = 0, when_full: str = "wait", max_charges: int = 0, max_delay: float = 0.0, visibility_timeout: float = 0.0):
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._run: Run | None = None
        self._closed = False
        if when_full not in ("wait", "drop"):
            raise BadArgument(f"when_full is '{when_full}'. Give 'wait' or 'drop'")
        numbers = {"slabs": slabs, "samples_per_slab": samples_per_slab, "max_key_bytes": max_key_bytes, "max_consumers": max_consumers,
                   "max_charges": max_charges}
        for option, number in numbers.items():
            if not 0 <= number < 1 << 32:
                raise BadArgument(f"{option} is {number}. Give a number of 32 bits, or 0 to have it chosen")
        self._options = {"run_dir": path_of(run_dir), "run_id": run_id.encode() or None, "name": name.encode() or None, **numbers,
                         "drop_when_full": int(when_full == "drop"), "max_delay_seconds": max_delay, "visibility_timeout_seconds": visibility_timeout}
        self._device = None if device is None else _device(str(device))
        self._layout = None if tensors is None else [_layout(each, told) for each, told in tensors.items()]
        if self._layout is not None and device is not None:
            self._run = Run(self._options, self._layout, self._device)
        else:
            library()       # where it is not there, it is said now
        _open.add(self)

    def submit(self, outputs: object, keys: Iterable[str] | None = None, items: Iterable[int] | None = None, stream: object = None,
               copy: bool = False) -> None:
        """
        Hands over one batch, and returns at once; waits only while all slabs are full.

        `outputs`: a mapping from names to tensors, each of shape (samples, ...) and row-major, or one tensor, which is then named "output". NumPy
        arrays and torch.Tensors of the CPU, or torch.Tensors of one CUDA device. They are held until they are copied, and must not be written
        to before: a loop that writes into the same tensor again, a CUDA graph's replay and torch.compile(mode="reduce-overhead") do; there
        `copy=True` takes a copy first, on the stream that is current.

        `keys`: one a sample, which names its results; without them the items' numbers do. `items`: numbers, one a sample, rising from batch to
        batch; without them they are counted on. `stream`: the torch.cuda.Stream, or the number of the cudaStream_t, that the tensors are
        written on; without it the one that PyTorch uses now.

        Errors: TypeError and BadArgument for what cannot be handed over, which say what to call; nothing was taken then.
        """
        self._require_own()
        if copy and stream is not None:
            raise BadArgument("a copy is made on the stream that is current. Give no stream with copy=True, and submit under "
                              "`with torch.cuda.stream(stream):`")
        named = dict(outputs) if isinstance(outputs, Mapping) else {ONLY: outputs}
        if not named:
            raise BadArgument("a batch without tensors. Submit one or more")
        with self._turn:
            self._require_own()
            given = [outputs_of(name, tensor, copy) for name, tensor in self._in_order(named)]
            _require_one_batch(list(named) if self._layout is None else [layout.name for layout in self._layout], given)
            self._require_fit(given)
            rows = given[0].shape[0]
            batch = _batch(given, _keys(keys, rows), _items(items, rows), stream_of(stream, given))
            if self._run is None:
                layout = self._layout or [Layout(name, each.dtype, each.shape) for name, each in zip(named, given)]
                self._run = Run(self._options, layout, self._device or given[0].device)
                self._layout = layout
                if self._closed:        # meanwhile, by another thread
                    self._run.close()
            self._run.submit(batch, [each.owner for each in given])

    def drain(self, timeout: float | None = None) -> None:
        """
        Takes no more, and returns when consumers are done with everything. Errors: Timeout after so many seconds; it may be called again.
        """
        self._require_own()
        if timeout is not None and not timeout >= 0:
            raise BadArgument(f"the timeout is {timeout}. Give seconds, or None to wait for ever")
        if self._run is not None:
            self._run.drain(timeout)

    def figures(self) -> Figures:
        """What went through so far."""
        self._require_own()
        return Figures() if self._run is None else self._run.figures()

    def close(self) -> None:
        """Ends the run: what was not drained is abandoned. May be called again; does nothing in a forked child."""
        if self._pid != os.getpid():
            return
        self._closed = True
        _open.discard(self)
        if self._run is not None:
            self._run.close()

    def __enter__(self) -> Egress:
        return self

    def __exit__(self, kind, problem, traceback) -> None:
        if self._pid != os.getpid():
            return
        try:
            if kind is None and not self._closed:
                self.drain()
        finally:
            self.close()

    def __del__(self):
        _close_forgotten(self)

    def _require_own(self) -> None:
        if self._pid != os.getpid():
            raise WrongProcess("the egress belongs to the process that made it, and this is a child of it. Submit there")
        if self._closed:
            raise BadArgument("the egress is closed. Make another one")

    def _in_order(self, named: dict[str, object]) -> list[tuple[str, object]]:
        if self._layout is None:
            return list(named.items())
        names = [layout.name for layout in self._layout]
        if set(names) != set(named):
            raise BadArgument(f"a batch of {', '.join(map(str, named))}; the run has {', '.join(names)}. Submit one of each")
        return [(name, named[name]) for name in names]

    def _require_fit(self, given: list[Outputs]) -> None:
        device = self._device if self._run is None else self._run.device
        if device not in (None, given[0].device):
            raise BadArgument(f"a batch on the device '{given[0].device}'; the run is for '{device}'. Submit what is there, or open another run")
        for layout, each in zip(self._layout or (), given):
            if each.dtype != layout.dtype:
                raise TypeError(f"'{layout.name}' has elements of type {each.dtype}; the run has {layout.dtype}. Convert them, or open another run")
            if each.shape[1:] != layout.shape[1:]:
                raise BadArgument(f"'{layout.name}' has the shape {each.shape}; the run was opened for {layout.shape}. Open another run for it")
            if each.shape[0] > layout.shape[0]:
                raise BadArgument(f"'{layout.name}' has {each.shape[0]} samples; the run was opened for {layout.shape[0]} at most. Say how many there "
                                  f"may be: Egress(tensors={{'{layout.name}': ('{layout.dtype}', {(each.shape[0], *layout.shape[1:])})}})")


def _require_one_batch(names: list[str], given: list[Outputs]) -> None:
    for name, each in zip(names, given):
        if each.shape[0] != given[0].shape[0]:
            raise BadArgument(f"'{name}' has {each.shape[0]} samples, '{names[0]}' has {given[0].shape[0]}. Submit tensors of one batch")
        if each.device != given[0].device:
            raise BadArgument(f"'{name}' is on the device '{each.device}', '{names[0]}' on '{given[0].device}'. Submit tensors of one device")
        if len(each.shape) > _abi.MOST_DIMS:
            raise BadArgument(f"'{name}' has {len(each.shape)} dimensions. Submit one of at most {_abi.MOST_DIMS}")


def _device(given: str) -> str:
    if given == "cuda":
        return "cuda:0"
    if given != "cpu" and not (given.startswith("cuda:") and given[5:].isdecimal()):
        raise BadArgument(f"the device '{given}'. Give 'cpu', 'cuda' or 'cuda:N', where the tensors are")
    return given


def _layout(name: str, told: object) -> Layout:
    try:
        dtype, shape = told
        shape = tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        raise BadArgument(f"the tensor '{name}' is described by {told!r}. Give its type and shape, as ('float32', (64, 1000))") from None
    return Layout(name, dtype_of(dtype), shape)


def _keys(keys: Iterable[str] | None, rows: int) -> bytes | None:
    """One after another, with a NUL behind each: for the library, and at once."""
    if keys is None:
        return None
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys are one text. Give a list of them, one a sample")
    if not isinstance(keys, (list, tuple)):
        keys = list(keys)
    try:
        text = "\0".join(keys)
    except TypeError:
        text = ""
    if text and len(keys) == rows and text.count("\0") == rows - 1:
        return f"{text}\0".encode("utf-8", "surrogateescape")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"a key of type {type(key).__qualname__}. Keys are of type str")
        if "\0" in key:
            raise BadArgument(f"the key {key!r} has a NUL character in it. Give one without")
    if len(keys) != rows:
        raise BadArgument(f"{len(keys)} keys for {rows} samples. Give one a sample, or none")
    return "".join(f"{key}\0" for key in keys).encode("utf-8", "surrogateescape")


def _items(items: Iterable[int] | None, rows: int) -> list[int] | None:
    if items is None:
        return None
    items = [int(item) for item in items]
    for item in items:
        if not 0 <= item < 1 << 64:
            raise BadArgument(f"the item {item}. Items are numbers of 64 bits, from 0 on")
    if len(items) != rows:
        raise BadArgument(f"{len(items)} items for {rows} samples. Give one a sample, or none")
    return items


def _batch(given: list[Outputs], keys: bytes | None, items: list[int] | None, stream: int | None) -> _abi.Batch:
    rows = given[0].shape[0]
    addresses = (ctypes.c_void_p * len(given))(*(each.address for each in given))
    return _abi.Batch(size=ctypes.sizeof(_abi.Batch), tensors=addresses, tensor_count=len(given), rows=rows,
                      items=None if items is None else (ctypes.c_uint64 * rows)(*items), stream=stream, timeout_seconds=WAIT_SECONDS,
                      key_text=keys, key_text_bytes=0 if keys is None else len(keys))


_open: weakref.WeakSet[Egress] = weakref.WeakSet()


def _close_forgotten(egress: Egress) -> None:
    if getattr(egress, "_run", None) is not None and not egress._closed and egress._pid == os.getpid():
        warnings.warn("an Egress was forgotten, and is closed: what consumers have not done is abandoned. Use it as a context, or call drain() and "
                      "close()", ResourceWarning, stacklevel=3)
        egress.close()


@atexit.register
def _close_all_forgotten() -> None:
    for egress in list(_open):
        _close_forgotten(egress)
