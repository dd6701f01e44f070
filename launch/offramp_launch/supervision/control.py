"""
The control socket of a run: one JSON object a line, one line back.

    {"do": "scale", "consumers": 4}   {"do": "status"}   {"do": "stop"}   {"do": "stop", "now": true}
    {"do": "reload", "group": ""}     {"do": "trace", "seconds": 5}
    {"do": "cut-short", "run_id": "..."}, from a loop that `run --producer` started, when it ends because it was asked
     to
    {"ok": true, ...}                 {"ok": false, "error": "...", "code": 64}

A connection stays open until either side closes it. It closes with the run, so a client waits for the run's end by
waiting for the connection's. The socket is 0600 in a directory that only the user may enter.
"""

import contextlib
import json
import os
import selectors
import socket
import time

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.run_dir import CONTROL_SOCKET

LONGEST_REQUEST = 4096
LONGEST_ANSWER = 4 << 20
ANSWER_SECONDS = 5


class ControlServer:
    """
    Serves requests on the supervisor's selector.
    Thread: the supervisor's. Blocks: never; the server reads no more requests from a client that does not read its
    answers.
    """

    def __init__(self, path, selector, answer):
        self._selector = selector
        self._answer = answer
        self._clients = {}  # the unfinished request of each
        self._unsent = {}  # the rest of each answer that a client has not taken yet
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        before = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(before)
        self._listener.listen(16)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self):
        self._path.unlink(missing_ok=True)
        self._selector.unregister(self._listener)
        self._listener.close()
        for client in list(self._clients):
            self._drop(client)

    def _accept(self):
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.setblocking(False)
        self._clients[client] = b""
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client):
        try:
            received = client.recv(LONGEST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._drop(client)
            return
        *lines, rest = (self._clients[client] + received).split(b"\n")
        self._clients[client] = rest
        for line in lines:
            if not self._send(client, self._reply(line)):
                return
        if len(rest) > LONGEST_REQUEST:
            self._drop(client)

    def _reply(self, line):
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError) as problem:
            return refusal(f"the request is not a JSON object ({problem})", ExitCode.USAGE)
        try:
            return {"ok": True, **self._answer(request)}
        except LaunchError as problem:
            return refusal(str(problem), problem.code)

    def _send(self, client, reply):
        """False when the client was dropped."""
        self._unsent[client] = self._unsent.get(client, b"") + json.dumps(reply).encode() + b"\n"
        return self._send_more(client)

    def _send_more(self, client):
        unsent = self._unsent.pop(client)
        try:
            unsent = unsent[client.send(unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return False
        if len(unsent) > LONGEST_ANSWER:
            self._drop(client)
            return False
        if unsent:
            self._unsent[client] = unsent
            self._selector.modify(client, selectors.EVENT_WRITE, lambda: self._send_more(client))
        else:
            self._selector.modify(client, selectors.EVENT_READ, lambda: self._read(client))
        return True

    def _drop(self, client):
        self._unsent.pop(client, None)
        if self._clients.pop(client, None) is not None:
            self._selector.unregister(client)
            client.close()


def refusal(error, code):
    return {"ok": False, "error": error, "code": int(code)}


class ControlClient:
    """Sends requests to a live run. Blocks until it answers, at most ANSWER_SECONDS."""

    def __init__(self, run_dir, patience=ANSWER_SECONDS):
        self._run_dir, self._patience = run_dir, patience
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(os.fspath(run_dir / CONTROL_SOCKET))
        except (BlockingIOError, TimeoutError, socket.timeout) as problem:
            raise self._fail_reply() from problem
        except OSError as problem:
            raise LaunchError(f"no live run in '{run_dir}' ({problem.strerror})", "", ExitCode.NO_SUCH_RUN) from problem

    def ask(self, request):
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._line(time.monotonic() + self._patience)
        except (BlockingIOError, TimeoutError, socket.timeout) as problem:
            raise self._fail_reply() from problem
        except OSError:
            line = b""
        if not line:
            raise LaunchError("the run ended before it answered", "", ExitCode.NO_SUCH_RUN)
        try:
            reply = json.loads(line)
            if not reply.get("ok"):
                raise LaunchError(str(reply.get("error", "refused")), "", int(reply.get("code", ExitCode.INTERNAL)))
        except (ValueError, TypeError, AttributeError, RecursionError) as problem:
            raise LaunchError(
                f"the answer of the run in '{self._run_dir}' is malformed",
                "It may be of another version",
                ExitCode.PROTOCOL,
            ) from problem
        return reply

    def wait_for_the_end(self):
        """Blocks until the run closes its control socket, which is the last thing it does."""
        self._socket.settimeout(None)
        with contextlib.suppress(OSError):
            while self._socket.recv(LONGEST_REQUEST):
                pass

    def _line(self, deadline):
        """The first line received; empty when the connection ends before."""
        received = b""
        while b"\n" not in received:
            left = deadline - time.monotonic()
            if left <= 0 or len(received) > LONGEST_ANSWER:
                raise TimeoutError
            self._socket.settimeout(left)
            part = self._socket.recv(65536)
            if not part:
                return b""
            received += part
        return received.partition(b"\n")[0]

    def _fail_reply(self):
        return LaunchError(
            f"the launcher of the run in '{self._run_dir}' is alive but does not answer in {self._patience:.0f} s",
            "It may be stopped (kill -CONT resumes it), or frozen with its container",
            ExitCode.NO_SUCH_RUN,
        )
