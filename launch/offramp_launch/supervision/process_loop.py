"""What whoever looks after a run's processes has: a loop, the lifeline, the control socket, and the ways to an end."""

import os
import selectors
import signal

from offramp_launch.supervision.control import ControlServer
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.progress import ENDS
from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.supervision.logbook import Logbook
from offramp_launch.supervision.signal_inbox import SignalInbox
from offramp_launch.supervision.timers import Timers
from offramp_launch.watching.exporter import StatusExporter

TICK_SECONDS = 0.5


class ProcessLoop:
    """
    Owns: its children, the lifeline, the control socket, what the run is watched by. Borrows: the run directory, the display.
    Thread: the main thread, for it handles signals. Blocks: run() until every child has ended.
    Whatever happens in run(), no child is left when it returns; if the launcher itself is killed, the kernel closes the
    lifeline, and the children read that as the order to end.
    Who oversees says what: _begin(), _is_running(), _code(), _alive(), _look(), _ask_to_drain(), _ask_to_abandon(), fail(), _scale(), _begin_reload(), _begin_trace(),
    _describe(), and where there is more of it _between_looks() and _release().
    """

    ENDS_THE_RUN = True     # with its own end

    def __init__(self, run_dir, display, http=None):
        """`http`: (host, port) where it is to be watched; None: nowhere."""
        self._at = run_dir
        self._display = self._logbook = Logbook(run_dir, display)
        self._selector = selectors.DefaultSelector()
        self._timers = Timers()
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._control = ControlServer(run_dir.file(CONTROL_SOCKET), self._selector, self._answer)
        self._exporter = StatusExporter(run_dir, http, self._selector, self._timers, self._display, self._describe)
        self._draining = False
        self._abandoned = False
        self._is_cut_off = False        # by an exception
        self.failure = None     # LaunchError: why the launcher itself ended it

    # -- the life of a run ------------------------------------------------------------------------------------------

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
        """The last thing: whoever waits on the control socket now learns that it is over."""
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
        """The status document, when the loop is over."""
        document = {**self._describe(), "finishing": True}
        return self._as_failed(document) if self._is_cut_off else document

    def _final_messages(self):
        """With how the run ended, which is told last of all."""
        document, told = self._describe(), self._at.status()
        if told.get("nonce") == document["status"].get("nonce"):        # else it is the next run's of a program of one's own
            document["status"] = {**document["status"], **told}
        return self._as_failed({**document, "finishing": True})

    def _as_failed(self, document):
        """Unless it tells another end: nobody is left who would."""
        if self.ENDS_THE_RUN and document["status"].get("state") not in ENDS:
            document["status"] = {**document["status"], "state": "failed"}
        return document

    def _between_looks(self):
        """What is tried again and again."""

    def _release(self):
        """Of whatever was held for the time of run()."""

    # -- ending -----------------------------------------------------------------------------------------------------

    def _signal_children(self, number):
        for child in self._alive():
            child.signal(number)

    def _kill_children(self):
        self._signal_children(signal.SIGKILL)

    def _kill_everyone(self):
        """For the way out by an exception: on any other way nobody is left."""
        for child in self._alive():
            child.signal(signal.SIGKILL)
            child.reap()

    def _on_signal(self, number):
        if number == signal.SIGHUP or not self._draining:
            self._drain("the terminal is gone" if number == signal.SIGHUP else "once more abandons what is in flight")
        else:
            self._abandon()

    def _drain(self, remark):
        if not self._draining:
            self._draining = True
            self._display.note(f"draining: what is in flight is finished ({remark})")
            self._ask_to_drain()

    def _abandon(self):
        """What is in flight is given up; whoever asks once more gets a kill."""
        if self._abandoned:
            self._kill_children()
            return
        asked_before = self._draining
        self._draining = self._abandoned = True
        self._display.note("abandoning what is in flight (once more kills)")
        self._ask_to_abandon(asked_before)

    # -- control ----------------------------------------------------------------------------------------------------

    def _answer(self, request):
        what = request.get("do")
        if what == "status":
            return self._describe()
        if what == "scale":
            return self._scale(str(request.get("consumers")))
        if what == "reload":
            return self._begin_reload()
        if what == "trace":
            return self._begin_trace(request.get("seconds"))
        if what == "stop":
            if request.get("now"):
                self._abandon()
            else:
                self._drain("asked by stop")
            return self._describe()
        raise LaunchError(f"the run knows no '{what}'", "Known: reload, scale, status, stop, trace", ExitCode.USAGE)
