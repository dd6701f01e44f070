"""
The control socket of a run: one JSON object a line, one line back.

    {"do": "scale", "consumers": 4}   {"do": "status"}   {"do": "stop"}   {"do": "stop", "now": true}
    {"ok": true, ...}                 {"ok": false, "error": "...", "code": 64}

A connection stays open until either side closes it; it closes with the run, so that waiting for its end is waiting for
the run's. The socket is 0600 in a directory that only the user may enter.
"""

import json
import os
import selectors
import socket

from offramp_launch.exit_code import ExitCode, LaunchError

LONGEST_REQUEST = 4096


class ControlServer:
    """
    Serves requests on the supervisor's selector.
    Thread: the supervisor's. Blocks: never; a client that does not read its answers is dropped.
    """

    def __init__(self, path, selector, answer):
        self._selector = selector
        self._answer = answer
        self._clients = {}
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
        except ValueError as problem:
            return refusal(f"the request is no JSON object ({problem})", ExitCode.USAGE)
        try:
            return {"ok": True, **self._answer(request)}
        except LaunchError as problem:
            return refusal(str(problem), problem.code)

    def _send(self, client, reply):
        data = json.dumps(reply).encode() + b"\n"
        try:
            sent = client.send(data)
        except OSError:
            sent = 0
        if sent != len(data):
            self._drop(client)
        return sent == len(data)

    def _drop(self, client):
        if self._clients.pop(client, None) is not None:
            self._selector.unregister(client)
            client.close()


def refusal(error, code):
    return {"ok": False, "error": error, "code": int(code)}


class ControlClient:
    """Asks a live run. Blocks until it answers."""

    def __init__(self, run_dir):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(os.fspath(run_dir / "control.sock"))
        except OSError as problem:
            raise LaunchError(f"no live run in '{run_dir}' ({problem.strerror})", "", ExitCode.NO_SUCH_RUN) from problem
        self._file = self._socket.makefile("rb")

    def ask(self, request):
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._file.readline()
        except OSError:
            line = b""
        if not line:
            raise LaunchError("the run ended before it answered", "", ExitCode.NO_SUCH_RUN)
        reply = json.loads(line)
        if not reply.get("ok"):
            raise LaunchError(reply.get("error", "refused"), "", reply.get("code", ExitCode.INTERNAL))
        return reply

    def wait_for_the_end(self):
        """Blocks until the run closes its control socket, which is the last thing it does."""
        try:
            while self._file.readline():
                pass
        except OSError:
            pass
