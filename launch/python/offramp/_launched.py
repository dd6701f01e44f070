"""Connects a program that `offramp run --producer` started to its run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import threading
from typing import NamedTuple

from offramp._checkpoint import NAME
from offramp._errors import BadArgument
from offramp._threads import start_without_signals

LIFELINE = "OFFRAMP_LIFELINE_FD"      # NUMBER:INODE of a pipe
CONTROL_SOCKET = "control.sock"
STATUS, CUT_SHORT = "status", "cut-short"     # what is said there: offramp_launch/supervision/control.py
STATUS_FILE = "status.json"
ANSWER_SECONDS = 5
TIMED_OUT = (BlockingIOError, TimeoutError, socket.timeout)     # the first: more wait to be accepted than the socket takes
ENDED_BY_THE_USER = 130


class Place(NamedTuple):
    """The launcher's settings, read from environment variables."""

    run_dir: str
    run_id: str
    output: str
    processor: str
    processor_option: str
    work: str
    resume: bool
    kill_stalled: bool = False


class Launched:
    """
    The launcher's SIGTERM asks the loop to end: pending() yields no more batches and submit() raises Stopped. A second SIGTERM, or the
    launcher's death, raises KeyboardInterrupt, and the Egress abandons unfinished work. Owns: the lifeline, a thread that watches it, and the
    SIGTERM handler, if the program has none and makes the Egress on its main thread.
    """

    def __init__(self, place: Place, lifeline: int):
        self.place = place
        self.is_taken = False
        self._lifeline = lifeline
        self._asked = 0
        self._has_said_so = False
        self._gone = False
        os.set_inheritable(lifeline, False)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
        start_without_signals(threading.Thread(target=self._watch, name="offramp-lifeline", daemon=True))

    @property
    def asked_to_end(self) -> bool:
        """Reports the early end to the launcher, because a script or torchrun in between may hide this process's exit code."""
        if self._asked > 0 and not self._has_said_so:
            self._has_said_so = True
            _say(self.place, CUT_SHORT)
        return self._asked > 0

    def forget(self) -> None:
        """In a forked child: SIGTERM ends it, as it ends any program."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, *_: object) -> None:
        self._asked += 1
        if self._asked > 1 or self._gone:
            raise KeyboardInterrupt

    def _watch(self) -> None:
        with contextlib.suppress(OSError):      # a connection that its launcher never accepted is reset
            while os.read(self._lifeline, 1):
                continue
        self._gone = True
        os.kill(os.getpid(), signal.SIGTERM)


_launched: Launched | None = None


def launched(knows_its_run: bool = False) -> Launched | None:
    """
    None if no launcher started this program. If a program in between closed the lifeline (torchrun does), connects to the launcher instead.
    Does not connect if the Egress `knows_its_run`: then a launched program started this one for its own purposes. Errors: BadArgument.
    """
    global _launched
    if _launched is None and (told_of := os.environ.get(LIFELINE)):
        del os.environ[LIFELINE]        # child programs are not the run's producer
        told = {name: os.environ.get(f"OFFRAMP_{name.upper()}", "") for name in Place._fields if name not in ("resume", "kill_stalled")}
        if not told["run_dir"]:
            raise BadArgument(f"{LIFELINE} is set, and OFFRAMP_RUN_DIR is not. Leave both to `offramp run --producer`")
        lifeline = _inherited(told_of)
        if lifeline is None and knows_its_run:
            return None
        if lifeline is None:
            lifeline = _connected(told["run_dir"], told["run_id"])
        resume = os.environ.get("OFFRAMP_RESUME") == "true" or _is_a_second_life(told["run_dir"], told["run_id"], told["output"], told["work"])
        _launched = Launched(Place(**told, resume=resume, kill_stalled=os.environ.get("OFFRAMP_KILL_STALLED") == "true"), lifeline)
    return _launched


def _is_a_second_life(run_dir: str, run_id: str, output: str, work: str) -> bool:
    """Whether torchrun or a script, not the launcher, restarted a loop that died: its work has begun and its run has not ended."""
    run = _object_in(os.path.join(run_dir, STATUS_FILE))
    return run.get("run_id") == run_id and run.get("state") != "ended" and _object_in(os.path.join(output, NAME)).get("work") == work


def _object_in(path: str) -> dict[str, object]:
    """In the file's first line, or all of it; an empty one where there is none."""
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


def _inherited(told: str) -> int | None:
    """The lifeline, and nothing that has got its number since it was closed."""
    number, _, inode = told.partition(":")
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
        there = _ask(connection, STATUS).get("run_id")
        connection.settimeout(None)
    except (OSError, ValueError) as problem:
        connection.close()
        why = "timed out" if isinstance(problem, TIMED_OUT) else getattr(problem, "strerror", None) or problem
        raise BadArgument(f"this program was started by `offramp run --producer`, and no launcher answers in {run_dir} any more ({why}). "
                          "Give that command again, with --resume") from problem
    if there != run_id:
        connection.close()
        raise BadArgument(f"this program was started by `offramp run --producer` for the run {run_id!r}, and the launcher in {run_dir} has the run {there!r} by "
                          "now, whose program is another. Let this one end")
    return connection.detach()


def _say(place: Place, what: str) -> None:
    """Sends a message to the launcher, if it listens."""
    with _connection() as connection, contextlib.suppress(OSError, ValueError):
        connection.connect(os.path.join(place.run_dir, CONTROL_SOCKET))
        _ask(connection, what, run_id=place.run_id)


def _connection() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    return connection


def _ask(connection: socket.socket, what: str, **more: str) -> dict[str, object]:
    """Errors: OSError; ValueError for what no launcher says."""
    connection.sendall(json.dumps({"do": what, **more}).encode() + b"\n")
    received = b""
    while not received.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            raise ValueError("it ended before it answered")
        received += part
    answer = json.loads(received)
    if not isinstance(answer, dict):
        raise ValueError("its answer is not a launcher's")
    return answer


def _forget() -> None:
    """A forked child is not the run's producer."""
    global _launched
    if _launched is not None:
        _launched.forget()
    _launched = None


os.register_at_fork(after_in_child=_forget)
