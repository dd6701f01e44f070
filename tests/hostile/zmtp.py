"""Enough of ZMTP 3.0, ZeroMQ's wire protocol, to send what libzmq never sends."""

import socket
import struct

MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(body, flags=0):
    if len(body) > 255:
        return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def ready(socket_type, identity=b""):
    """The handshake's command."""

    def named(name, value):
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value

    return frame(b"\x05READY" + named(b"Socket-Type", socket_type) + named(b"Identity", identity), COMMAND)


class Connection:
    """
    A connection to a socket of the run. Blocks for at most `patience` seconds. Errors: OSError if the other end has
    closed it.
    """

    def __init__(self, path, socket_type, patience=30):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._unread = b""
        if socket_type:
            self.raw(GREETING)
            self._take(len(GREETING))
            self.raw(ready(socket_type))
            self.frame()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._socket.close()

    def raw(self, data):
        self._socket.sendall(data)

    def send(self, *bodies):
        """Sends one message with a frame per body."""
        self.raw(b"".join(frame(body, MORE if i + 1 < len(bodies) else 0) for i, body in enumerate(bodies)))

    def frame(self):
        """(flags, body) of the next frame."""
        (flags,) = self._take(1)
        size = struct.unpack(">Q", self._take(8))[0] if flags & LONG else self._take(1)[0]
        return flags, self._take(size)

    def receive(self):
        """The only frame of the next message; skips commands."""
        while True:
            flags, body = self.frame()
            if not flags & COMMAND:
                return body

    def _take(self, count):
        while len(self._unread) < count:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the other end closed the connection")
            self._unread += data
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken
