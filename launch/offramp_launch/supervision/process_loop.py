"""The common part of all supervisors of a run's processes: event loop, lifeline, control socket, shutdown."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable

from offramp_launch.supervision.children import Child
from offramp_launch.supervision.control import ControlServer
from offramp_launch.exit_code import LaunchError, UsageError
from offramp_launch.progress import ENDS
from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.supervision.logbook import Logbook
from offramp_launch.supervision.events import SignalInbox, Timers
from offramp_launch.watching.exporter import StatusExporter

TICK_SECONDS = 0.5


class ProcessLoop:
    """
    Owns: its children, the lifeline, the control socket, the status exporter. Borrows: the run directory, the display.
    Thread: the main thread, since it handles signals. Blocks: run() until every child has ended.
    Whatever happens in run(), no child is left when it returns. If the launcher itself is killed, the kernel closes the
    lifeline, and the children then exit.
    """

    ENDS_THE_RUN = True  # the run ends with this loop

    def __init__(self, plan, display):
        """`plan`: a RunPlan or GpusPlan."""
        self._plan = plan
        self._status: dict = {}  # the run's latest
        self._display = self._logbook = Logbook(plan.run_dir, display)
        self._selector = selectors.DefaultSelector()
        self._timers = Timers()
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._control = ControlServer(plan.run_dir.file(CONTROL_SOCKET), self._selector, self._answer)
        self._exporter = StatusExporter(
            plan.run_dir, plan.http, self._selector, self._timers, self._display, self._describe
        )
        self._draining = False
        self._abandoned = False
        self._is_cut_off = False  # by an exception
        self.failure: LaunchError | None = None  # why the launcher itself ended it

    # -- what subclasses define -------------------------------------------------------------------------------------

    _begin: Callable[[], None]
    _is_running: Callable[[], bool]
    _alive: Callable[[], list[Child]]
    _look: Callable[[], None]
    _code: Callable[[], int]  # the exit code, once nothing runs any more
    fail: Callable[[LaunchError], None]
    _ask_to_drain: Callable[[], None]
    _ask_to_abandon: Callable[[bool], None]  # whether it was asked to drain before
    _facts: Callable[[], dict]  # fields of the run's description, beside those of every run
    _scale: Callable[[str], dict]
    _begin_reload: Callable[[str], dict]  # of one group; empty: of all consumers
    _begin_trace: Callable[[object], dict]

    def _between_looks(self) -> None:
        """Called after each look."""

    def _release(self) -> None:
        """Releases what run() held."""

    # -- the life of a run ------------------------------------------------------------------------------------------

    run_dir = property(lambda self: self._plan.run_dir)
    status = property(lambda self: self._status)

    def run(self):
        """Returns the exit code."""
        with SignalInbox(self._selector, self._on_signal):
            try:
                self._exporter.begin()
                self._begin()
                while self._is_running():
                    for key, _ in self._selector.select(self._timers.next_in()):
                        key.data()
                    self._timers.run_due()
            except BaseException:
                self._is_cut_off = True
                raise
            finally:
                self._kill_everyone()
                self._look()
                self._release()
                self._exporter.end(self._final_status)
        return int(self.failure.code) if self.failure else self._code()

    def close(self):
        """Call last: closing the control socket informs waiting clients that the run is over."""
        self._exporter.close(self._final_messages)
        self._control.close()
        self._selector.close()
        os.close(self._lifeline_write)
        os.close(self._lifeline_read)

    def _tick(self):
        self._look()
        self._between_looks()
        if self._is_running():
            self._timers.after(TICK_SECONDS, self._tick)

    def _final_status(self):
        """The status document once the loop is over."""
        document = {**self._describe(), "finishing": True}
        return self._as_failed(document) if self._is_cut_off else document

    def _final_messages(self):
        """The description with the run's end, as sent to clients last."""
        document, status = self._describe(), self._plan.run_dir.status()
        # else it belongs to the next run of the user's program
        if status.get("nonce") == document["status"].get("nonce"):
            document["status"] = {**document["status"], **status}
        return self._as_failed({**document, "finishing": True})

    def _as_failed(self, document):
        """Sets the state to failed unless the status has another end: no process is left to report one."""
        if self.ENDS_THE_RUN and document["status"].get("state") not in ENDS:
            document["status"] = {**document["status"], "state": "failed"}
        return document

    # -- ending -----------------------------------------------------------------------------------------------------

    def _signal_children(self, number):
        for child in self._alive():
            child.signal(number)

    def _kill_children(self):
        self._signal_children(signal.SIGKILL)

    def _kill_everyone(self):
        """Matters after an exception; otherwise no child is left by now."""
        for child in self._alive():
            child.signal(signal.SIGKILL)
            child.reap()

    def _on_signal(self, number):
        if number == signal.SIGHUP or not self._draining:
            self._drain("the terminal was closed" if number == signal.SIGHUP else "another signal abandons it")
        else:
            self._abandon()

    def _drain(self, remark):
        if not self._draining:
            self._draining = True
            self._display.note(f"draining: finishing the work in flight ({remark})")
            self._ask_to_drain()

    def _abandon(self):
        """Gives up what is in flight. A second call kills the children."""
        if self._abandoned:
            self._kill_children()
            return
        asked_before = self._draining
        self._draining = self._abandoned = True
        self._display.note("abandoning the work in flight (another signal kills)")
        self._ask_to_abandon(asked_before)

    # -- control ----------------------------------------------------------------------------------------------------

    def _describe(self):
        return {
            "run_id": self._plan.run_id,
            "run_dir": str(self.run_dir.path),
            "launcher_pid": os.getpid(),
            "ending": self._draining,
            **self._logbook.record(),
            **self._facts(),
            "status": self._status,
        }

    def _answer(self, request):
        what = request.get("do")
        if what == "status":
            return self._describe()
        if what == "scale":
            return self._scale(str(request.get("consumers")))
        if what == "reload":
            return self._begin_reload(str(request.get("group") or ""))
        if what == "trace":
            return self._begin_trace(request.get("seconds"))
        if what == "stop":
            if request.get("now"):
                self._abandon()
            else:
                self._drain("asked by stop")
            return self._describe()
        raise UsageError(f"unknown request '{what}'", "Known: reload, scale, status, stop, trace")
