"""The last phase of a run: what its consumers left is put together, and whoever is impatient does no harm."""

import contextlib
import selectors
import signal

from offramp_launch.supervision.signal_inbox import SignalInbox


class Finishing:
    """
    Waits for the program that puts outputs together, through signals: the first one is answered with a word, another one ends the program, which may be
    killed anywhere. What it warned of is told. Entered before the run, until nothing of it is left to do, so that no signal in between ends the launcher.
    Borrows: the program. Thread: the main thread, for it handles signals. Blocks: wait(), until the program has ended.
    """

    ENDED = object()    # by a signal

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
        """Returns ENDED, or nothing where the program came to its end by itself, if only just; it is reaped."""
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
        with contextlib.suppress(OSError):      # a terminal that is gone
            if not self._asked or number == signal.SIGHUP:
                self._asked = True
                self._note("the outputs are being put together, which is waited for (once more ends it; --resume then goes on)")
                return
            self._note("putting the outputs together is ended")
        self._ended = True
        self._program.signal(signal.SIGKILL)
