"""The status document, for all clients of one server: asked for at most four times a second, however many they are."""

import json
import threading
import time

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.control import ControlClient

KEPT_SECONDS = 0.25
PATIENCE_SECONDS = 2
AGAIN_SECONDS = 1       # after a launcher that gave no answer


class NoAnswer(Exception):
    """Of the launcher, with the reason."""


class Source:
    """
    Asks the run's launcher, until that says how its run ended. Owns: a connection to its control socket.
    Thread: any. Blocks: for one answer, at most PATIENCE_SECONDS, whoever else waits for it.
    """

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._client = None
        self._answer = self._problem = None
        self._until = 0.0       # the answer is as good as new
        self._last_word = None  # once the launcher's loop has ended
        self._is_over = False

    is_over = property(lambda self: self._is_over, doc="The launcher ends: what it said last is all that there will be.")

    def document(self):
        """Errors: NoAnswer."""
        if self._last_word is not None:
            return self._last_word
        with self._lock:
            if time.monotonic() >= self._until:
                self._ask()
            if self._problem:
                raise NoAnswer(self._problem)
            return self._answer

    def _ask(self):
        began, self._problem = time.monotonic(), None
        try:
            self._answer = self._asked()
        except LaunchError as problem:
            self._client, self._problem = None, problem.in_one_line()
        self._until = (time.monotonic() + AGAIN_SECONDS) if self._problem else began + KEPT_SECONDS

    def _asked(self):
        """By a new connection where the launcher has dropped the one that there was."""
        if self._client is not None:
            try:
                return self._client.ask({"do": "status"})
            except LaunchError:
                self._client = None
        self._client = ControlClient(self._run_dir, PATIENCE_SECONDS)
        return self._client.ask({"do": "status"})

    def hear(self, document):
        """What the launcher says by itself."""
        self._last_word = document
        self._tell()

    def end(self):
        self._is_over = True
        self._tell()

    def _tell(self):
        with self._changed:
            self._changed.notify_all()

    def wait_for_news(self, seconds):
        """No longer than that."""
        with self._changed:
            if not self._is_over:
                self._changed.wait(seconds)


def as_line(document):
    return json.dumps(document, separators=(",", ":")).encode()
