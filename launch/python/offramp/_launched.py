"""Connects a program that `offramp run --producer` started to its run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import threading
from typing import Any, NamedTuple

from offramp._checkpoint import NAME
from offramp._errors import BadArgument
from offramp._threads import start_without_signals

LIFELINE = "OFFRAMP_LIFELINE_FD"  # NUMBER:INODE of a pipe
CONTROL_SOCKET = "live/control.sock"
STATUS, CUT_SHORT = "status", "cut-short"  # requests: offramp_launch/supervision/control.py
STATUS_FILE = "status.json"
ANSWER_SECONDS = 5
TIMED_OUT = (BlockingIOError, TimeoutError, socket.timeout)  # BlockingIOError: the socket's backlog is full
ENDED_BY_THE_USER = 130
SWITCHES = ("resume", "kill_stalled", "durable")


class LauncherSettings(NamedTuple):
    """The launcher's settings, read from environment variables."""

    run_dir: str
    run_id: str
    output: str
    processor: str
    processor_option: str
    work: str
    resume: bool
    kill_stalled: bool = False
    durable: bool = False


class Launched:
    """
    The launcher's SIGTERM asks the loop to end: pending() yields no more batches and submit() raises Stopped. A second
    SIGTERM, or the launcher's death, raises KeyboardInterrupt, and the Egress abandons unfinished work. Owns: the
    lifeline, a thread that watches it, and the SIGTERM handler, if the program has none and makes the Egress on its
    main thread.
    """

    def __init__(self, settings: LauncherSettings, lifeline: int):
        self.settings = settings
        self.is_taken = False
        self._lifeline = lifeline
        self._stop_requests = 0
        self._has_reported = False
        self._launcher_died = False
        os.set_inheritable(lifeline, False)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
        start_without_signals(threading.Thread(target=self._watch, name="offramp-lifeline", daemon=True))

    @property
    def asked_to_end(self) -> bool:
        """
        Reports the early end to the launcher, because a script or torchrun in between may hide this process's exit
        code.
        """
        if self._stop_requests > 0 and not self._has_reported:
            self._has_reported = True
            _report(self.settings, CUT_SHORT)
        return self._stop_requests > 0

    def forget(self) -> None:
        """In a forked child: restores SIGTERM's default action, which ends the child."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, *_: object) -> None:
        self._stop_requests += 1
        if self._stop_requests > 1 or self._launcher_died:
            raise KeyboardInterrupt

    def _watch(self) -> None:
        with contextlib.suppress(OSError):  # a connection that the launcher never accepted is reset
            while os.read(self._lifeline, 1):
                continue
        self._launcher_died = True
        os.kill(os.getpid(), signal.SIGTERM)


_launched: Launched | None = None


def launched(knows_its_run: bool = False) -> Launched | None:
    """
    None if no launcher started this program. If a program in between closed the lifeline (torchrun does), connects to
    the launcher instead. Does not connect if the Egress `knows_its_run`: then a launched program started this one for
    its own purposes. Errors: BadArgument.
    """
    global _launched
    if _launched is None and (lifeline_text := os.environ.get(LIFELINE)):
        del os.environ[LIFELINE]  # child programs are not the run's producer
        given: dict[str, Any] = {
            name: os.environ.get(f"OFFRAMP_{name.upper()}", "") for name in LauncherSettings._fields
        }
        settings = LauncherSettings(**{**given, **{name: given[name] == "true" for name in SWITCHES}})
        if not settings.run_dir:
            raise BadArgument(
                f"{LIFELINE} is set, and OFFRAMP_RUN_DIR is not. Unset both: `offramp run --producer` sets them"
            )
        lifeline = _inherited(lifeline_text)
        if lifeline is None and knows_its_run:
            return None
        if lifeline is None:
            lifeline = _connected(settings.run_dir, settings.run_id)
        _launched = Launched(settings._replace(resume=settings.resume or _was_restarted(settings)), lifeline)
    return _launched


def _was_restarted(settings: LauncherSettings) -> bool:
    """
    Whether torchrun or a script, not the launcher, restarted a loop that died: its work has begun and its run has not
    ended.
    """
    run = _object_in(os.path.join(settings.run_dir, STATUS_FILE))
    return (
        run.get("run_id") == settings.run_id
        and run.get("state") != "ended"
        and _object_in(os.path.join(settings.output, NAME)).get("work") == settings.work
    )


def _object_in(path: str) -> dict[str, object]:
    """The JSON object in the file's first line, or in the whole file; empty if there is none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            text = file.read()
    except OSError:
        return {}
    for part in (text.partition(b"\n")[0], text):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(part)
            return value if isinstance(value, dict) else {}
    return {}


def _inherited(lifeline_text: str) -> int | None:
    """The lifeline's descriptor; None if it was closed, even if its number is in use again."""
    number, _, inode = lifeline_text.partition(":")
    try:
        facts = os.fstat(int(number))
    except (OSError, ValueError):
        return None
    return int(number) if stat.S_ISFIFO(facts.st_mode) and str(facts.st_ino) == inode else None


def _connected(run_dir: str, run_id: str) -> int:
    """Connects to the launcher's control socket; the launcher keeps connections open while it lives."""
    connection = _connection()
    try:
        connection.connect(os.path.join(run_dir, CONTROL_SOCKET))
        current_run = _ask(connection, STATUS).get("run_id")
        connection.settimeout(None)
    except (OSError, ValueError) as problem:
        connection.close()
        why = "timed out" if isinstance(problem, TIMED_OUT) else getattr(problem, "strerror", None) or problem
        raise BadArgument(
            f"this program was started by `offramp run --producer`, and no launcher answers in {run_dir} any more ({why}). "
            "Run that command again with --resume"
        ) from problem
    if current_run != run_id:
        connection.close()
        raise BadArgument(
            f"this program was started by `offramp run --producer` for the run {run_id!r}, and the launcher in {run_dir} now has the run {current_run!r} "
            "with another program. End this program"
        )
    return connection.detach()


def _report(settings: LauncherSettings, request: str) -> None:
    """Sends a message to the launcher, if it listens."""
    with _connection() as connection, contextlib.suppress(OSError, ValueError):
        connection.connect(os.path.join(settings.run_dir, CONTROL_SOCKET))
        _ask(connection, request, run_id=settings.run_id)


def _connection() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    return connection


def _ask(connection: socket.socket, request: str, **more: str) -> dict[str, object]:
    """Sends a request and returns the launcher's answer. Errors: OSError; ValueError for an invalid answer."""
    connection.sendall(json.dumps({"do": request, **more}).encode() + b"\n")
    received = b""
    while not received.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            raise ValueError("it closed the connection without an answer")
        received += part
    answer = json.loads(received)
    if not isinstance(answer, dict):
        raise ValueError("its answer is not a JSON object")
    return answer


def _forget() -> None:
    """A forked child is not the run's producer."""
    global _launched
    if _launched is not None:
        _launched.forget()
    _launched = None


os.register_at_fork(after_in_child=_forget)
