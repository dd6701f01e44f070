"""Exports the state of a run: a file of metrics and, with --http, a server process."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import selectors
import signal
import socket
import sys
import time

from offramp_launch.exit_code import LaunchError
from offramp_launch.run_dir import METRICS
from offramp_launch.supervision.backoff import FIRST_SECONDS, Backoff
from offramp_launch.supervision.children import Child
from offramp_launch.watching.address import is_any, is_loopback, listen, spelled
from offramp_launch.watching.exposition import text_of
from offramp_launch.watching.metrics import families_of

TARGETS = "targets.json"
METRICS_SECONDS = 15
FINAL_STATUS_SECONDS = 1  # for the server to read it
SERVER_END_SECONDS = 2  # then, for it to exit
REPORTED_DEATHS, MOST_ENDS = 3, 20  # of a server that exits repeatedly: noted, and before the launcher gives up
# Variables that Python may need to start; the server gets no others.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL")


class StatusExporter:
    """
    Owns: the listening socket, the server's process. Their failures do not end the run. `describe()`: the status
    document. Thread: the overseer's. Blocks: close(), for SERVER_END_SECONDS at most.
    """

    def __init__(self, run_dir, address, selector, timers, display, describe):
        """`address`: (host, port), or None for no server."""
        self._run_dir, self._address, self._describe = run_dir, address, describe
        self._selector, self._timers, self._display = selector, timers, display
        self._listener: socket.socket | None = None
        self._server: tuple[Child, int] | None = None  # and the writing end of its input
        self._backoff, self._ends = Backoff(), 0
        self._is_closing = False
        self._is_failure_noted = False

    def begin(self):
        self._remove(TARGETS)  # left by an earlier launcher that was killed
        self._timers.after(METRICS_SECONDS, self._write_periodically)
        if self._address:
            self._begin_server()

    def end(self, describe):
        """
        Writes and sends a last document, which the server keeps, once the overseer's loop is over. `describe()`: the
        status document.
        """
        self._is_closing = True
        self._write_metrics(describe)
        if self._server:
            with contextlib.suppress(Exception):  # an unexpected status, or a server that does not read
                write_within(self._server[1], json.dumps(describe()).encode() + b"\n", FINAL_STATUS_SECONDS)

    def close(self, describe):
        """`describe()`: the last status document."""
        self.end(describe)
        if self._server:
            server = self._forget_server(*self._server)
            if not select.select([server.pidfd], [], [], SERVER_END_SECONDS)[0]:
                server.signal(signal.SIGKILL)
            server.reap()
        self._stop_listening()

    # -- files ------------------------------------------------------------------------------------------------------

    def _write_periodically(self):
        self._write_metrics(self._describe)
        self._timers.after(METRICS_SECONDS, self._write_periodically)

    def _write_metrics(self, describe):
        """A run that ends without a status removes the file."""
        try:
            document = describe()
            if self._is_closing and not document["status"]:
                self._remove(METRICS)
                return
            text = text_of(families_of(document, time.time()))
        except Exception as problem:  # an unexpected status must not end the run
            if not self._is_failure_noted:
                self._display.note(f"{METRICS} is not written: {problem!r} while reading the status")
            self._is_failure_noted = True
            return
        self._write(METRICS, text)

    def _write(self, name, text):
        with contextlib.suppress(OSError):  # such as a full disk
            self._run_dir.write(name, text)

    def _remove(self, name):
        with contextlib.suppress(OSError):
            self._run_dir.file(name).unlink()

    # -- the server -------------------------------------------------------------------------------------------------

    def _begin_server(self):
        at = spelled(*self._address)
        try:
            self._listener = listen(self._address)
        except OSError as problem:
            self._display.note(f"--http {at}: cannot listen: {problem.strerror}. The run continues without HTTP")
            return
        host, port = self._listener.getsockname()[:2]
        at = spelled(socket.gethostname() if is_any(self._listener) else host, port)
        self._display.note(f"http://{at}/ shows the run; /metrics is for Prometheus")
        if not is_loopback(self._listener):
            self._display.note(
                f"--http {spelled(*self._address)} is reachable from other machines: anyone who can connect may read the run's status"
            )
        self._write(TARGETS, json.dumps([{"targets": [at]}], indent=2) + "\n")
        self._start_server(self._listener)

    def _start_server(self, listener: socket.socket) -> None:
        if self._is_closing:
            return
        server: Child | None = None
        pipe: tuple[int, ...] = ()
        try:
            environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
            environment["MALLOC_ARENA_MAX"] = "2"  # else glibc gives many threads their own
            pipe = read, write = os.pipe()
            os.set_blocking(write, False)
            command, log = self._command(listener), self._run_dir.log("http")
            server = Child("http", command, log, (listener.fileno(),), stdin=read, cwd="/", env=environment)
            self._selector.register(
                server.pidfd, selectors.EVENT_READ, lambda: self._on_server_end(listener, server, write)
            )
        except Exception as problem:  # such as no free descriptor: the run continues
            if server:
                server.signal(signal.SIGKILL)
                server.reap()
            for end in pipe:
                os.close(end)
            why = problem.in_one_line() if isinstance(problem, LaunchError) else problem
            self._start_again(listener, 0, f"cannot start the server of --http: {why}")
            return
        os.close(read)
        self._server = server, write

    def _command(self, listener: socket.socket) -> list[str]:
        options = ["-E", "-s", *(["-B"] if sys.dont_write_bytecode else [])]
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
        folder = str(pathlib.Path(__file__).resolve().parent)
        return [sys.executable, *options, folder, str(listener.fileno()), str(self._run_dir.path)]

    def _on_server_end(self, listener: socket.socket, server: Child, pipe: int) -> None:
        self._forget_server(server, pipe).reap()
        self._start_again(
            listener, server.lived_seconds(), f"the server of --http (pid {server.pid}) {server.ending()}"
        )

    def _start_again(self, listener: socket.socket, lived_seconds: float, why: str) -> None:
        delay = self._backoff.after_life_of(lived_seconds)
        self._ends = 1 if delay == FIRST_SECONDS else self._ends + 1
        if self._ends >= MOST_ENDS:
            self._display.note(
                f"{why}: it ended {self._ends} times soon after its start. The run continues without HTTP. "
                f"Its log: {self._run_dir.log('http')}"
            )
            self._stop_listening()
            return
        if self._ends <= REPORTED_DEATHS:
            self._display.note(f"{why}; starting it again in {delay:.1f} s")
        self._timers.after(delay, lambda: self._start_server(listener))

    def _stop_listening(self):
        if self._listener:
            self._listener.close()
            self._listener = None
            self._remove(TARGETS)

    def _forget_server(self, server: Child, pipe: int) -> Child:
        self._server = None
        self._selector.unregister(server.pidfd)
        os.close(pipe)
        return server


def write_within(descriptor, data, seconds):
    """Writes to a non-blocking pipe. Errors: OSError; TimeoutError if the reader has not taken it all in time."""
    deadline = time.monotonic() + seconds
    while data:
        if not select.select([], [descriptor], [], max(0, deadline - time.monotonic()))[1]:
            raise TimeoutError
        data = data[os.write(descriptor, data) :]
