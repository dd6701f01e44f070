"""A run in the library, and its tensors, which stay alive until they are copied."""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import os
import queue
import sys
import threading
import time
import warnings
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from offramp import _abi, _validate
from offramp._arrays import Outputs
from offramp._checkpoint import Checkpoint
from offramp._errors import BadArgument, TensorChanged, Timeout, error_of
from offramp._library import checked, library
from offramp._order import ROW_MAJOR, Layout, strides_of
from offramp._threads import start_without_signals
from offramp._torch import Memory

WAIT_SECONDS = 0.1  # in C, before Python checks for Ctrl-C
LOOK_SECONDS = 0.005  # between two checks of all held tensors, in a loop that submits
QUIET_SECONDS = 0.02  # without a submit() before the thread checks, and between its checks
LOOK_AT_CONSUMERS_SECONDS = 0.5  # between two checks for stalled consumers
KILLED_WITHIN_SECONDS = 5  # after this, kill_stalled has failed
FIRST_WARNING_SECONDS = 30  # from the first warning to the second
VISIBILITY_TIMEOUT_SECONDS = 30  # the default (offramp.h)
BETWEEN_WRITES_SECONDS = 0.02  # of the checkpoint: a crash repeats the work of this time
_NEVER = (1 << 64) - 1


class Stats(NamedTuple):
    """Counters of an Egress."""

    batches_submitted: int = 0
    samples_submitted: int = 0
    samples_published: int = 0
    samples_completed: int = 0
    samples_dropped: int = 0
    samples_dead_lettered: int = 0
    bytes_copied: int = 0
    copy_seconds: float = 0.0  # on the device
    slab_wait_seconds: float = 0.0  # copies waiting for a free slab
    consumers: int = 0  # living
    stalled: int = 0  # living, without progress for the visibility timeout, and holding slabs

    @property
    def _unfinished(self) -> int:
        """Submitted samples that are neither done nor given up."""
        finished = self.samples_completed + self.samples_dropped + self.samples_dead_lettered
        return self.samples_submitted - finished


class Run:
    """
    One offramp_egress. Owns it, the tensors of batches that are not copied yet, and the thread that releases them.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        layout: list[Layout],
        device: str,
        checkpoint: Checkpoint | None = None,
        require_consumers: Callable[[], None] = lambda: None,
        unreachable: Callable[[bool], str] = lambda is_first: "",
    ):
        self.device = device
        self._require_consumers = require_consumers
        self._warner = WaitWarner(options, unreachable)
        self._library = library()
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        self._callers: list[int] = []  # threads inside library calls
        self._closing = False
        self._final_stats: Stats | None = None  # once closed
        self._accepted, self._accepted_known = 0, True  # batches; unknown during a library call
        if len(layout) > _abi.MOST_TENSORS or not layout:
            raise BadArgument(f"the run has {len(layout)} tensors. Give 1 to {_abi.MOST_TENSORS}")
        for each in layout:
            _validate.text("a tensor's name", each.name)
        varies = any(each.varies for each in layout)
        # Reused by each submit()
        self._error, self._released, self._addresses = (
            _abi.ErrorText(),
            ctypes.c_uint64(),
            (ctypes.c_void_p * len(layout))(),
        )
        self._extents = (ctypes.c_void_p * len(layout))() if varies else None
        self._sample_addresses = (ctypes.c_void_p * len(layout))() if varies else None
        self._batch = _abi.Batch(
            size=ctypes.sizeof(_abi.Batch),
            tensors=self._addresses,
            tensor_count=len(layout),
            timeout_seconds=WAIT_SECONDS,
            released=ctypes.pointer(self._released),
            extents=self._extents,
            addresses=self._sample_addresses,
        )
        tensors = (_abi.Tensor * len(layout))()
        for tensor, each in zip(tensors, layout):
            numbers = ctypes.c_int64 * len(each.shape)
            tensor.size, tensor.name, tensor.dims = ctypes.sizeof(tensor), each.name.encode(), len(each.shape)
            tensor.shape = numbers(*(_abi.VARIABLE if extent is None else extent for extent in each.shape))
            if each.order != ROW_MAJOR:
                tensor.strides = numbers(*strides_of([extent or 0 for extent in each.shape], each.order))
            tensor.dtype = _abi.DTypeCode(each.dtype.code, each.dtype.bits, 1)
        self._given = _abi.EgressOptions(
            size=ctypes.sizeof(_abi.EgressOptions),
            tensors=tensors,
            tensor_count=len(layout),
            device=device.encode(),
            report_completed=int(checkpoint is not None),
            report_failed=int(checkpoint is not None),
            **options,
        )
        self._releases = Releases(self._library, self._handle, None if checkpoint is None else checkpoint.changed)
        self._completions = None if checkpoint is None else Completions(self._library, self._handle, checkpoint)

    def open(self) -> None:
        """
        Call it first. After an exception (from a signal handler, or a thread that cannot start), call it again to
        continue, or close().
        """
        assert self._handle is not None
        if not self.is_begun:
            checked(self._library.offramp_egress_open, ctypes.byref(self._given), ctypes.byref(self._handle))
        self._releases.start()
        if self._completions is not None:
            self._completions.start()

    @property
    def is_begun(self) -> bool:
        """Whether the library has the run."""
        return bool(self._handle)

    @property
    def accepted(self) -> int:
        """
        The number of batches in the library. After an exception in submit(), the library's count is authoritative.
        """
        if not self._accepted_known:
            self._accepted = self.stats().batches_submitted
            self._accepted_known = True
        return self._accepted

    def submit(
        self,
        tensors: Sequence[Outputs],
        rows: int,
        keys: bytes | None,
        items: Sequence[int] | None,
        stream: int | None,
        owners: list[object],
        metadata: Sequence[bytes | None] | None = None,
    ) -> None:
        """`tensors`: in the layout's order. Thread: one at a time, so that batches are numbered in order."""
        batch, self._addresses[:] = self._batch, [each.address for each in tensors]
        if self._extents is not None and self._sample_addresses is not None:
            for index, each in enumerate(tensors):
                extents, addresses = each.samples[:2] if each.samples is not None else (None, None)
                self._extents[index] = None if extents is None else extents.buffer_info()[0]
                self._sample_addresses[index] = None if addresses is None else addresses.buffer_info()[0]
        batch.rows, batch.stream = rows, stream
        batch.key_text, batch.key_text_bytes = keys, 0 if keys is None else len(keys)
        batch.items = None if items is None else (ctypes.c_uint64 * rows).from_buffer(array.array("Q", items))
        batch.metadata = None if metadata is None else (ctypes.c_char_p * rows)(*metadata)
        number, code, error = self.accepted, _abi.TIMEOUT, self._error
        self._releases.hold(number, owners)
        self._accepted_known = False  # until the library returns; an exception leaves it False
        self._warner.begin()
        while code == _abi.TIMEOUT:
            code = self._call(self._library.offramp_egress_submit, ctypes.byref(batch), ctypes.byref(error))
            if code == _abi.TIMEOUT:
                try:
                    self.supervise_consumers()
                except Exception:
                    self._not_accepted(number)
                    raise
        if code == _abi.OK:
            self._accepted = number + 1
            self._releases.drop(self._released.value)
            self._accepted_known = True
        else:
            self._not_accepted(number)
            raise error_of(code, error.text.decode(errors="replace"))

    def require_unchanged(self, first: int | None = None) -> None:
        """Errors: TensorChanged, once for each changed batch. `first`: only for the batch with this first item."""
        self.find_changed()
        changed = self._releases.changed
        for each in list(changed):
            if first in (None, each[0]):
                changed.remove(each)
                raise each[1]

    def find_changed(self) -> None:
        """Checks the latest batch, and all held tensors from time to time."""
        if time.monotonic() >= self._releases.look_at or self._releases.latest_is_changed():
            self._releases.find_changed(self._call)

    def _not_accepted(self, number: int) -> None:
        self._releases.forget(number)
        self._accepted_known = True

    def drain(self, timeout: float | None) -> None:
        self._releases.find_changed(self._call)
        self._warner.begin()
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if end is None else max(0.0, min(WAIT_SECONDS, end - time.monotonic()))
            if checked(self._call, self._library.offramp_egress_drain, left, besides=(_abi.TIMEOUT,)) == _abi.OK:
                break
            self.supervise_consumers()
            if end is not None and time.monotonic() >= end:
                raise Timeout(f"consumers are not done after {timeout} s. Call drain() again, or start more consumers")
        if (completions := self._completions) is not None:
            self._call(lambda _: completions.record_rest())

    def supervise_consumers(self) -> None:
        """Call it every WAIT_SECONDS while the loop waits for consumers. Errors: those of require_consumers."""
        self._require_consumers()
        self._warner.look(self.stats)

    def require_recorded(self) -> None:
        """Retries a failed write of the checkpoint. Errors: CannotWrite."""
        if (completions := self._completions) is not None and completions.problem is not None:
            self._call(lambda _: completions.record_rest())

    def stats(self) -> Stats:
        """The counters; those at its end once the run is closed."""
        return self._stats_by(self._call) if self._final_stats is None else self._final_stats

    def _stats_by(self, call: Callable[..., Any]) -> Stats:
        now = _abi.EgressStats(size=ctypes.sizeof(_abi.EgressStats))
        checked(call, self._library.offramp_egress_get_stats, ctypes.byref(now))
        return Stats(*(getattr(now, name) for name in Stats._fields))

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        while set(self._callers) - {threading.get_ident()}:  # each returns within WAIT_SECONDS
            time.sleep(0.001)
        self._releases.stop()
        if self._completions is not None:
            self._completions.stop()
        handle, self._handle = self._handle, None
        try:
            if handle:
                self._final_stats = self._stats_by(lambda function, *arguments: function(handle, *arguments))
        finally:
            try:
                if handle:
                    checked(self._library.offramp_egress_close, handle)
            finally:
                self._releases.release_all()  # no copy is running

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """
        Calls the library; close() waits for these calls. Uses no lock, because Ctrl-C could leave it locked.
        """
        me = threading.get_ident()
        try:
            self._callers.append(me)
            if self._closing:
                raise BadArgument("the egress was closed. Create another one")
            return function(self._handle, *arguments)
        finally:
            if me in self._callers:
                self._callers.remove(me)


class Interval:
    """The times of a warning that is repeated while its reason lasts, less and less often."""

    def __init__(self) -> None:
        self._warn_at = self.since = 0.0

    def is_due(self, now: float, after: float = 0.0) -> bool:
        """Call it while the reason lasts. `after`: seconds before the first warning."""
        self.since = self.since or now
        if now < self._warn_at or now - self.since < after:
            return False
        self._warn_at = now + max(FIRST_WARNING_SECONDS, now - self.since)
        return True


class WaitWarner:
    """
    Warns while the loop waits for stalled consumers, or for a sink that consumers cannot reach: immediately, then at
    doubling intervals. With kill_stalled, warns only about consumers that are still stalled after
    KILLED_WITHIN_SECONDS. `unreachable`: that of OwnConsumers.
    """

    def __init__(self, options: Mapping[str, Any], unreachable: Callable[[bool], str] = lambda is_first: ""):
        self._kills = bool(options.get("kill_stalled"))
        self._run_dir = os.fsdecode(options["run_dir"])
        self._timeout = options["visibility_timeout_seconds"] or VISIBILITY_TIMEOUT_SECONDS
        self._unreachable = unreachable
        self._why, self._completed = "", 0  # the last reason, and the samples that were completed before
        self._look_at = 0.0
        self._stall, self._outage = Interval(), Interval()
        self._is_first = True

    def begin(self) -> None:
        """Call it before each wait."""
        self._is_first = True

    def look(self, stats: Callable[[], Stats]) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_AT_CONSUMERS_SECONDS
        now_stats = stats()
        self._look_at_sink(now, now_stats)
        if not now_stats.stalled:
            self._stall = Interval()
        elif self._stall.is_due(now, KILLED_WITHIN_SECONDS if self._kills else 0.0):
            how, remedy = (
                (
                    "kill_stalled has not ended them: they are in this process, which it never kills, belong to another user, or exit slowly",
                    "In this process, let the function return; end other processes yourself",
                )
                if self._kills
                else ("kill_stalled is off", "Kill them, or open the Egress with kill_stalled=True")
            )
            warn(
                f"{now_stats.stalled} of {now_stats.consumers} consumers made no progress, the first of them for more than {self._timeout + now - self._stall.since:.1f} s, "
                f"and {how}. The loop waits for them ({self._run_dir}/status.json has their pids). {remedy}; a function that is only slow should call "
                "slab.progress(), or needs a longer visibility_timeout"
            )

    def _look_at_sink(self, now: float, stats: Stats) -> None:
        is_first, self._is_first = self._is_first, False
        if why := self._unreachable(is_first):
            self._why, self._completed = why, stats.samples_completed
        elif self._why and stats.samples_completed > self._completed:
            self._why = ""
            self._outage = Interval()
        if self._why and self._outage.is_due(now):
            warn(
                f"consumers cannot write {stats._unfinished} samples: {self._why}. The loop waits, and consumers try again until they can "
                f"(logs: {self._run_dir}/logs). To give up, end the loop, and continue later with resume=True"
            )


def warn(text: str) -> None:
    """Issues a RuntimeWarning, which names the first line outside of the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        __package__,
        "contextlib",  # a `with` statement's
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


class Watch:
    """Detects changes of a batch's tensors. `keys`: NUL-terminated. `first`: its first item, if known."""

    __slots__ = ("_memories", "_keys", "first")

    def __init__(self, memories: list[Memory], keys: bytes | None, first: int | None):
        self._memories, self._keys, self.first = memories, keys, first

    def changed(self) -> str | None:
        for memory in self._memories:
            if (how := memory.changed()) is not None:
                return how
        return None

    def problem(self, number: int, how: str) -> TensorChanged:
        first = (
            ""
            if self._keys is None
            else f", whose first key is '{self._keys.partition(bytes(1))[0].decode(errors='replace')}',"
        )
        return TensorChanged(
            f"a tensor of batch {number}{first} was {how} before it was copied: consumers may read wrong data. Do not write to tensors until "
            "they are copied: use other tensors, or submit(..., copy=True)"
        )


class _Thread(threading.Thread):
    """A thread that can be joined even if Ctrl-C interrupted its start."""

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            super().join(timeout)


class Releases:
    """
    Holds each batch's tensors until they are copied, and detects changes before that. A loop that submits does both
    itself, because waking another thread costs more than all the rest of submit(). Owns: a thread that does both while
    the loop does not submit.
    """

    def __init__(self, library: Any, handle: ctypes.c_void_p | None, report_changed: Callable[[int], None] | None):
        self._library, self._handle, self._report_changed = library, handle, report_changed
        self._held: dict[int, list[object]] = {}
        self._watches: dict[int, Watch] = {}  # of held batches that were not reported as changed
        self._next = self._released = 0
        self._stopped = False
        # Set by the first batch or stop(). Not an Event, because Ctrl-C could leave its lock locked.
        self._begun: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.look_at = 0.0  # the time of the next check of all held tensors
        # Each changed batch's first item, if known, until it is raised.
        self.changed: collections.deque[tuple[int | None, TensorChanged]] = collections.deque()
        # close() ends it, at exit at the latest
        self._thread = _Thread(target=self._release, name="offramp-releases", daemon=True)

    def start(self) -> None:
        if not self._thread.is_alive():
            start_without_signals(self._thread)

    def hold(self, number: int, owners: list[object]) -> None:
        """Holds the tensors of a batch, numbered from 0. Thread: hold() and forget() one at a time."""
        self._held[number] = owners
        if owners and type(owners[-1]) is Watch:
            self._watches[number] = owners[-1]
        else:
            self._watches.pop(number, None)  # of an interrupted batch that was not accepted
        self._next = number + 1
        if number == 0:
            self._begun.put(None)

    def forget(self, number: int) -> None:
        """Releases a batch that was not accepted; the next one gets its number."""
        self._next = number
        self._pop(number)

    def stop(self) -> None:
        self._stopped = True
        self._library.offramp_egress_end_waits(self._handle, None)
        self._begun.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def release_all(self) -> None:
        self._held.clear()
        self._watches.clear()

    def drop(self, released: int) -> None:
        """Called by two threads: each batch is popped once."""
        for number in range(self._released, released):
            self._pop(number)
        self._released = max(self._released, released)

    def latest_is_changed(self) -> bool:
        """Whether the latest batch changed, before or after its copy."""
        watch = self._watches.get(self._next - 1)
        return watch is not None and watch.changed() is not None

    def find_changed(self, call: Callable[..., int]) -> None:
        """Checks the tensors first and the copies afterwards, so that a write after the copy is not reported."""
        self.look_at = time.monotonic() + LOOK_SECONDS
        suspects: list[tuple[int, Watch, str]] = []
        for number in range(self._released, self._next):
            if (watch := self._watches.get(number)) is not None and (how := watch.changed()) is not None:
                suspects.append((number, watch, how))
        if suspects:
            now = ctypes.c_uint64()
            code = call(self._library.offramp_egress_wait_released, _NEVER, 0.0, ctypes.byref(now), None)
            for number, watch, how in suspects if code in (_abi.OK, _abi.TIMEOUT) else ():
                # Only one of two threads reports it. The number may belong to another batch now, if this one was not
                # accepted.
                if (
                    number >= now.value
                    and watch is self._watches.get(number)
                    and watch is self._watches.pop(number, None)
                ):
                    if self._report_changed is not None and watch.first is not None:
                        self._report_changed(watch.first)
                    self.changed.append((watch.first, watch.problem(number, how)))

    def _pop(self, number: int) -> None:
        self._watches.pop(number, None)
        self._held.pop(number, None)

    def _release(self) -> None:
        now = ctypes.c_uint64()
        self._begun.get()
        while not self._stopped:
            code = self._library.offramp_egress_wait_unattended(
                self._handle, self._released, QUIET_SECONDS, QUIET_SECONDS, ctypes.byref(now), None
            )
            if code not in (_abi.OK, _abi.TIMEOUT):
                return  # close() releases all tensors
            self.drop(now.value)
            if code == _abi.TIMEOUT:
                self.find_changed(lambda function, *arguments: function(self._handle, *arguments))


class Completions:
    """
    Records finished and failed items in the checkpoint. Owns: a thread, which sleeps in the library. Borrows: the
    checkpoint.
    """

    MOST = 1024  # ranges per call

    def __init__(self, library: Any, handle: ctypes.c_void_p | None, checkpoint: Checkpoint):
        self._library, self._handle, self._checkpoint = library, handle, checkpoint
        self._ranges, self._count = (_abi.Items * self.MOST)(), ctypes.c_uint32()
        self._lock = threading.RLock()  # guards all but `problem`
        self._stopped = False
        self.problem: Exception | None = None  # with the checkpoint; the next completion or batch tries again
        # stop() ends it, at exit at the latest
        self._thread = _Thread(target=self._record, name="offramp-checkpoint", daemon=True)

    def start(self) -> None:
        if not self._thread.is_alive():
            start_without_signals(self._thread)

    def record_rest(self) -> None:
        """Records all items completed so far. Errors: CannotWrite."""
        with self._lock:
            while self._take(0.0):
                continue
            self._checkpoint.write()
            self.problem = None

    def stop(self) -> None:
        self._stopped = True
        if self._thread is not threading.current_thread():
            # releases it completely: before Python 3.11, Ctrl-C may have left it locked
            with contextlib.suppress(RuntimeError):
                while True:
                    self._lock.release()
            self._thread.join()
        with contextlib.suppress(Exception):  # the next run repeats the batches
            self.record_rest()

    def _take(self, seconds: float) -> bool:
        """Whether items were taken; there may be more."""
        completed = self._items_of(self._library.offramp_egress_take_completed, seconds)
        given_up = self._items_of(self._library.offramp_egress_take_failed, 0.0)
        if not completed and not given_up:
            return False
        self._checkpoint.completed(completed, given_up)
        return True

    def _items_of(self, take: Callable[..., int], seconds: float) -> list[tuple[int, int]]:
        if take(self._handle, self._ranges, self.MOST, seconds, ctypes.byref(self._count), None) != _abi.OK:
            return []
        return [(self._ranges[at].begin, self._ranges[at].end) for at in range(self._count.value)]

    def _record(self) -> None:
        while not self._stopped:
            with self._lock:
                if self._take(BETWEEN_WRITES_SECONDS):
                    try:
                        self._checkpoint.write()
                        self.problem = None
                    except Exception as problem:
                        self.problem = problem
            time.sleep(BETWEEN_WRITES_SECONDS)
