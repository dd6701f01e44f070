"""One run of the library's, and how long a batch's tensors are held."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from typing import NamedTuple

from offramp import _abi
from offramp._dtypes import DType
from offramp._errors import BadArgument, Timeout, error_of
from offramp._library import checked, library

WAIT_SECONDS = 0.1      # in C, before Python looks for Ctrl-C


class Figures(NamedTuple):
    """What went through an egress so far."""

    batches_submitted: int = 0
    samples_submitted: int = 0
    samples_published: int = 0
    samples_completed: int = 0
    samples_dropped: int = 0
    samples_set_aside: int = 0
    bytes_copied: int = 0
    copy_seconds: float = 0.0           # of the device
    slab_wait_seconds: float = 0.0      # the copies waited for a free slab
    consumers: int = 0                  # living


class Layout(NamedTuple):
    """Of one tensor of a batch: shape[0] is the most samples that a batch holds."""

    name: str
    dtype: DType
    shape: tuple[int, ...]


class Run:
    """One offramp_egress. Owns it, the tensors of batches that are not copied yet, and the thread that lets them go."""

    def __init__(self, options: dict, layout: list[Layout], device: str):
        self.device = device
        self._library = library()
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        self._calling: list[int] = []       # threads that are in the library
        self._none_calls = threading.Condition()
        self._closing = False
        if len(layout) > _abi.MOST_TENSORS or not layout:
            raise BadArgument(f"{len(layout)} tensors. Describe 1 to {_abi.MOST_TENSORS}")
        for each in layout:
            if not isinstance(each.name, str) or "\0" in each.name:
                raise BadArgument(f"a tensor of the name {each.name!r}. Give a text, without a NUL character")
        tensors = (_abi.Tensor * len(layout))()
        kept = [(ctypes.c_int64 * len(each.shape))(*each.shape) for each in layout]
        for tensor, each, shape in zip(tensors, layout, kept):
            tensor.size, tensor.name, tensor.dims, tensor.shape = ctypes.sizeof(tensor), each.name.encode(), len(each.shape), shape
            tensor.dtype = _abi.DTypeCode(each.dtype.code, each.dtype.bits, 1)
        given = _abi.EgressOptions(size=ctypes.sizeof(_abi.EgressOptions), tensors=tensors, tensor_count=len(layout), device=device.encode(), **options)
        checked(self._library.offramp_egress_open, ctypes.byref(given), ctypes.byref(self._handle))
        self._releases = Releases(self._library, self._handle)

    def submit(self, batch: _abi.Batch, owners: list[object]) -> None:
        """Thread: one at a time, so that batches have their numbers in the order in which they come."""
        number = self._releases.hold(owners)
        error = _abi.ErrorText()
        code = _abi.TIMEOUT
        try:
            while code == _abi.TIMEOUT:
                with self._call():
                    code = self._library.offramp_egress_submit(self._handle, ctypes.byref(batch), ctypes.byref(error))
        finally:        # Ctrl-C may have come between the library's answer and this line
            if code != _abi.OK and not self._closing and self.figures().batches_submitted <= number:
                self._releases.forget(number)
        if code != _abi.OK:
            raise error_of(code, error.text.decode(errors="replace"))

    def drain(self, timeout: float | None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if end is None else max(0.0, min(WAIT_SECONDS, end - time.monotonic()))
            with self._call():
                if checked(self._library.offramp_egress_drain, self._handle, left, besides=(_abi.TIMEOUT,)) == _abi.OK:
                    return
            if end is not None and time.monotonic() >= end:
                raise Timeout(f"consumers are not done after {timeout} s. Call it again, or start more of them")

    def figures(self) -> Figures:
        now = _abi.EgressFigures(size=ctypes.sizeof(_abi.EgressFigures))
        with self._call():
            checked(self._library.offramp_egress_get_figures, self._handle, ctypes.byref(now))
        return Figures(*(getattr(now, name) for name in Figures._fields))

    def close(self) -> None:
        with self._none_calls:
            if self._closing:
                return
            self._closing = True
            self._none_calls.wait_for(lambda: set(self._calling) <= {threading.get_ident()})
        self._releases.stop()
        handle, self._handle = self._handle, None
        try:
            checked(self._library.offramp_egress_close, handle)
        finally:
            self._releases.let_all_go()     # no copy runs any more

    @contextlib.contextmanager
    def _call(self):
        """The handle is there meanwhile: close() waits for the calls of other threads."""
        with self._none_calls:
            if self._closing:
                raise BadArgument("the egress was closed. Make another one")
            self._calling.append(threading.get_ident())
        try:
            yield
        finally:
            with self._none_calls:
                self._calling.remove(threading.get_ident())
                self._none_calls.notify_all()


class Releases:
    """Holds each batch's tensors until the library says that they are copied. Owns: a thread, asleep in the library meanwhile."""

    def __init__(self, library, handle):
        self._library, self._handle = library, handle
        self._held: dict[int, list[object]] = {}
        self._next = 0
        self._more = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._let_go, name="offramp-releases", daemon=True)     # ended by close(), at exit at the latest
        self._thread.start()

    def hold(self, owners: list[object]) -> int:
        """Which batch of the run this is, counted from 0, if it is taken."""
        with self._more:
            number = self._next
            self._held[number] = owners
            self._next += 1
            self._more.notify()
            return number

    def forget(self, number: int) -> None:
        """It was not taken, and the next one has its number."""
        with self._more:
            self._held.pop(number, None)
            self._next = number

    def stop(self) -> None:
        with self._more:
            self._stopped = True
            self._more.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def let_all_go(self) -> None:
        self._held.clear()

    def _let_go(self) -> None:
        released, now = 0, ctypes.c_uint64()
        while True:
            with self._more:
                while released >= self._next and not self._stopped:
                    self._more.wait()
                if self._stopped:
                    return
            code = self._library.offramp_egress_wait_released(self._handle, released, WAIT_SECONDS, ctypes.byref(now), None)
            if code not in (_abi.OK, _abi.TIMEOUT):
                return      # all are held until the run is closed
            with self._more:
                gone = [self._held.pop(number, None) for number in range(released, now.value)]
            released = max(released, now.value)
            gone.clear()        # without the lock: it may free, and call, anything
