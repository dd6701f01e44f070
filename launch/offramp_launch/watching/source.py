"""The status document and its `view` for the server's clients: requested four times a second at most."""

import json
import threading
import time

from offramp_launch.exit_code import LaunchError
from offramp_launch.supervision.control import ControlClient
from offramp_launch.watching.rates import SHARE_SECONDS, Rates
from offramp_launch.watching.view import view_of

KEPT_SECONDS = 0.25
PATIENCE_SECONDS = 2
AGAIN_SECONDS = 1  # after a request that failed


class NoAnswer(Exception):
    """The launcher did not answer; the text is the reason."""


class Source:
    """
    Asks the run's launcher, until set_final(). Owns: a connection to its control socket. `is_over`: an event: the
    document no longer changes. Thread: any. Blocks: for one answer, at most PATIENCE_SECONDS. Concurrent callers share
    the answer.
    """

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._lock = threading.Lock()
        self._client = None
        self._rates = Rates(2 * SHARE_SECONDS)
        self._answer = self._problem = None
        self._until = 0.0  # no new request before this time
        self._final = None  # the document after the launcher's loop has ended
        self.is_over = threading.Event()

    def document(self):
        """Errors: NoAnswer."""
        if self._final is not None:
            return self._final
        with self._lock:
            if time.monotonic() >= self._until:
                self._ask()
            if self._problem:
                raise NoAnswer(self._problem)
            return self._answer

    def _ask(self):
        began, self._problem = time.monotonic(), None
        try:
            document = self._asked()
            self._answer = {**document, "view": view_of(document, self._rates, began)}
        except LaunchError as problem:
            self._client, self._problem = None, problem.in_one_line()
        self._until = (time.monotonic() + AGAIN_SECONDS) if self._problem else began + KEPT_SECONDS

    def _asked(self):
        """Reconnects once if the launcher has dropped the connection."""
        if self._client is not None:
            try:
                return self._client.ask({"do": "status"})
            except LaunchError:
                self._client = None
        self._client = ControlClient(self._run_dir, PATIENCE_SECONDS)
        return self._client.ask({"do": "status"})

    def set_final(self, document):
        """Replaces the launcher's answers. Has its own history, as another thread may hold the lock and wait."""
        self._final = {**document, "view": view_of(document, Rates(), time.monotonic())}


def as_line(document):
    return json.dumps(document, separators=(",", ":")).encode()
