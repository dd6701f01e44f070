"""A consumer's loop: the library runs on its own thread and hands slabs to the thread that iterates."""

from __future__ import annotations

import ctypes
import inspect
import os
import queue
import threading
import traceback
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, Iterator

from offramp import _abi, _validate
from offramp._errors import BadArgument, Error, Failed, KeptViewWarning, Reject, Retry, ViewKept, WrongProcess, error_of
from offramp._library import checked, library, path_of
from offramp._memory import Mappings
from offramp._slab import Slab
from offramp._threads import start_without_signals


class Consumer:
    """
    Reads a run's slabs, in a loop or with a function. Each slab goes to one of the run's consumers.

        for slab in offramp.Consumer("run"):
            for sample, logits in slab:
                save(sample.key, logits)

    A loop accepts a slab by asking for the next one, so commit its results first. If the loop ends in another way
    (`break`, `return`, an exception, Ctrl-C), its last slab is returned without counting a failure, and is delivered
    again. To count an exception against the slab, use run(). If the process dies, a failure is counted and the slab
    goes to another consumer. Slabs can arrive twice: make commits idempotent.

    `run_dir`: the producer's run directory, which is first used when the loop begins. `window`: slabs held at the same
    time; 0: chosen.
    `wait_for_run`: seconds to wait for a run that does not exist yet. `group`: of a run with groups of consumers, the
    one to join; each group gets every slab.

    Owns: a thread while the loop runs. Thread: iterate from any thread, one at a time; stop(), any. Blocks: the loop,
    until the next slab is available or the run ends. Errors: Error and its subclasses, mainly NoSuchRun, ProducerGone
    and NotPermitted.
    """

    def __init__(
        self, run_dir: str | os.PathLike[str], window: int = 0, wait_for_run: float = 10.0, *, group: str = ""
    ):
        self._handle = ctypes.c_void_p()
        self._pid = os.getpid()
        self._running = threading.Lock()
        window = _validate.whole("window", window, (1 << 32) - 1, "a number of slabs")
        wait_for_run = _validate.seconds("wait_for_run", wait_for_run)
        if not wait_for_run > 0:
            raise BadArgument(f"wait_for_run is {wait_for_run}. Give a positive number of seconds")
        self._library = library()
        folder = path_of(run_dir)
        self._run_dir = os.fsdecode(folder)
        name = _validate.text("group", group).encode() or None
        options = _abi.ConsumerOptions(ctypes.sizeof(_abi.ConsumerOptions), folder, window, 1, wait_for_run, name)
        checked(self._library.offramp_consumer_open, ctypes.byref(options), ctypes.byref(self._handle))

    def __repr__(self) -> str:
        return f"<offramp.Consumer of {self._run_dir!r}{', running' if self._running.locked() else ''}>"

    def __iter__(self) -> Iterator[Slab]:
        before = None  # the loop's variables may hold its views until the next slab replaces them
        has_warned = False
        with self._begun() as loop:
            for slab in loop.slabs():
                try:
                    yield slab
                finally:
                    slab._end()
                loop.answer(_abi.OK)
                if not has_warned and before is not None and (name := before._kept_view()):
                    has_warned = True
                    warnings.warn(
                        f"a view of the tensor '{name}' is still referenced after its slab's turn: it may show other data "
                        "now. Copy data that you keep: numpy.array(view)",
                        KeptViewWarning,
                        stacklevel=2,
                    )
                before = slab

    def run(self, function: Callable[[Slab], None]) -> bool:
        """
        Calls `function(slab)` for each slab on this thread. Returns True at the run's end, False after stop().

        A slab is accepted when the function returns. Exceptions of the function:
        - offramp.Failed: a failure is counted, and the slab is delivered again. After three failures (or `max_failures`
          of the producer) it becomes a dead letter. The loop continues.
        - offramp.Reject: the slab becomes a dead letter immediately. The loop continues.
        - offramp.Retry: the slab is returned without counting a failure, and run() raises Retry. Use it if the sink is
          unavailable.
        - Any other exception: a failure is counted, and run() raises it. Keeping a view of the slab raises ViewKept in
          the same way.
        - Ctrl-C and SystemExit: the slab is returned without counting a failure.
        """
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise BadArgument(
                f"{function!r} is not a plain function of a slab. Give a function whose work is done when it returns"
            )
        with self._begun() as loop:
            for slab in loop.slabs():
                try:
                    try:
                        function(slab)
                    finally:
                        slab._end()
                    if name := slab._kept_view():
                        raise ViewKept(
                            f"the consumer's function kept a view of its slab's tensor '{name}'. Copy data that you keep: "
                            "numpy.array(view)"
                        )
                except (Failed, Reject) as problem:
                    loop.answer_with_reason(_abi.FAILED if isinstance(problem, Failed) else _abi.REJECTED, str(problem))
                except BaseException as problem:
                    if isinstance(problem, Exception) and not isinstance(problem, Retry):
                        loop.answer_with_reason(_abi.CALLBACK_FAILED, traceback.format_exc())
                    else:
                        loop.answer(_abi.RETRY)
                    raise
                else:
                    loop.answer(_abi.OK)
            return loop.ran_to_the_end()

    def stop(self) -> None:
        """Ends this loop after the current slab, and every later loop. Thread: any; also safe in a signal handler."""
        if self._pid == os.getpid():
            self._library.offramp_consumer_stop(self._handle)

    def _begun(self) -> _Loop:
        if self._pid != os.getpid():
            raise WrongProcess(
                "the Consumer belongs to the parent process, and this is a forked child. Create another one here"
            )
        if not self._running.acquire(blocking=False):
            raise BadArgument("this consumer runs already. Create one for each loop")
        return _Loop(self)

    def __del__(self) -> None:
        if self._handle and self._pid == os.getpid():
            self._library.offramp_consumer_close(self._handle, None)


class _Loop:
    """
    One offramp_consumer_run(), as a context. Owns: the library's thread. Thread: the iterating thread;
    abandon_if_forgotten(): any.

    The library's thread waits for an answer to each slab while the iterating thread processes it.
    """

    def __init__(self, consumer: Consumer):
        self._consumer = consumer
        self._library, self._handle = consumer._library, consumer._handle
        # slabs and exceptions, finally the exit code
        self._handed: queue.SimpleQueue[Slab | BaseException | int] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._mappings = Mappings()
        self._owner = threading.current_thread()
        self._pid = os.getpid()
        self._asked = self._answered = 0  # counted by the library's thread and by the iterating thread
        self._ending = False  # set by an answer that ends the run
        self._left = False
        self._end: int | Error | None = None
        self._process = _abi.Process(self._hand_over)
        self._thread = threading.Thread(target=self._run, name="offramp-consumer", daemon=False)

    def __enter__(self) -> _Loop:
        _loops.add(self)
        try:
            start_without_signals(self._thread)
        except BaseException:
            if self._thread.ident is None:
                self._consumer._running.release()
            else:
                self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Returns the slab that was not accepted, however the loop ended."""
        if self._pid != os.getpid():
            return
        interrupted: BaseException | None = None
        while not self._left:
            try:
                self._leave()
            except BaseException as again:  # Ctrl-C, once more
                interrupted = again
        _loops.discard(self)
        self._thread.join()
        if interrupted is not None:
            raise interrupted

    def slabs(self) -> Iterator[Slab]:
        """Yields slabs; answer each before the next. Errors: the library's error that ended the run."""
        while True:
            try:
                given = self._handed.get()
            except BaseException:  # Ctrl-C
                self._library.offramp_consumer_stop(self._handle)
                raise
            if isinstance(given, Slab):
                yield given
            elif isinstance(given, (int, Error)):
                self._end = given
                if isinstance(given, Error):
                    raise given
                return
            else:
                self.answer(_abi.CALLBACK_FAILED)
                raise given

    def answer_with_reason(self, code: int, why: str) -> None:
        self._library.offramp_consumer_explain(self._handle, _abi.reason_of(why))
        self.answer(code)

    def answer(self, code: int) -> None:
        self._ending = code not in (_abi.OK, _abi.FAILED, _abi.REJECTED)
        self._answers.put(code)
        self._answered += 1  # after put(): Ctrl-C in between then adds a surplus answer to a loop that ends anyway

    def ran_to_the_end(self) -> bool:
        return self._end == _abi.OK

    def abandon_if_forgotten(self) -> None:
        """Called when the main thread ends: the iterating thread may not exist any more."""
        if self._owner is threading.main_thread() or self._owner.daemon or not self._owner.is_alive():
            self._library.offramp_consumer_stop(self._handle)
            self._answers.put(_abi.RETRY)

    def _leave(self) -> None:
        """Lets the library's thread end."""
        if self._end is None and self._asked == self._answered and not self._ending:
            self._library.offramp_consumer_stop(self._handle)
        self._answers.put(_abi.RETRY)  # for the slab that was not accepted, or for the next one
        self._left = True

    def _run(self) -> None:
        error = _abi.ErrorText()
        try:
            code = self._library.offramp_consumer_run(self._handle, self._process, None, ctypes.byref(error))
            in_order = code in (_abi.OK, _abi.STOPPED)
            self._handed.put(code if in_order else error_of(code, error.text.decode(errors="replace")))
        except BaseException as problem:
            self._handed.put(error_of(1, f"the consumer's thread failed: {problem!r}"))
        finally:
            self._consumer._running.release()

    def _hand_over(self, user: Any, given: Any) -> int:
        """Runs on the library's thread. Must not raise: that would accept the slab."""
        try:
            self._asked += 1
            try:
                self._handed.put(Slab(self._library, self._handle, given.contents, self._mappings))
            except BaseException as problem:
                self._handed.put(problem)
            return self._answers.get()
        except BaseException:
            return _abi.CALLBACK_FAILED


_loops: weakref.WeakSet[_Loop] = weakref.WeakSet()


def _abandon_forgotten_loops() -> None:
    for loop in list(_loops):
        loop.abandon_if_forgotten()


# Ends abandoned loops before the interpreter joins their threads. Without this hook it would wait until the run ends.
getattr(threading, "_register_atexit", lambda function: None)(_abandon_forgotten_loops)
