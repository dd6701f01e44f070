"""The last phase of a run: merges the consumers' outputs, and survives impatient signals."""

import contextlib
import selectors
import signal

from offramp_launch.supervision.events import SignalInbox


class Finishing:
    """
    Waits for the program that merges outputs. The first signal prints a message, another one kills the program, which
    is safe at any point. Repeats the program's warnings. Enter it before the run and leave it last, so that no signal
    in between ends the launcher. Borrows: the program. Thread: the main thread, since it handles signals. Blocks:
    wait(), until the program has ended.
    """

    ENDED = object()  # the program was ended by a signal

    def __init__(self, note):
        self._note = note
        self._selector = selectors.DefaultSelector()
        self._inbox = SignalInbox(self._selector, self._on_signal)
        self._program = None
        self._asked = False
        self._ended = False

    def __enter__(self):
        self._inbox.__enter__()
        return self

    def __exit__(self, *exception):
        self._inbox.__exit__(*exception)
        self._selector.close()

    def wait(self, program):
        """Reaps the program. Returns ENDED, or None where it ended by itself, even if just before the signal."""
        self._program = program
        over = []
        self._selector.register(program.pidfd, selectors.EVENT_READ, lambda: over.append(True))
        while not over:
            for key, _ in self._selector.select():
                key.data()
        self._selector.unregister(program.pidfd)
        program.reap()
        self._program = None
        with contextlib.suppress(OSError):
            for warning in program.warnings():
                self._note(f"{program.name}: {warning}")
        return self.ENDED if self._ended and program.status != 0 else None

    def _on_signal(self, number):
        if self._program is None:
            return
        with contextlib.suppress(OSError):  # a terminal that is gone
            if not self._asked or number == signal.SIGHUP:
                self._asked = True
                self._note("merging the outputs (another signal stops it, and --resume then continues)")
                return
            self._note("stopped merging the outputs")
        self._ended = True
        self._program.signal(signal.SIGKILL)
