"""The server's connections: a bounded number, with one request each. A new one replaces the oldest that is not a stream."""

import contextlib
import socket
import threading

MOST = 64
MOST_STREAMS = 32


class Connections:
    """
    Borrows: the sockets, each until leave(). Thread: any. Blocks: never. A connection whose request is still to come is replaced first; one that is being
    answered only if all others are answered, too, or are streams.
    """

    def __init__(self, most=MOST, most_streams=MOST_STREAMS):
        """`most_streams` must be less than `most`."""
        self._most, self._most_streams = most, most_streams
        self._lock = threading.Lock()
        self._waiting, self._answered, self._streams = {}, {}, {}  # each in order of arrival

    def admit(self, connection):
        with self._lock:
            if sum(map(len, (self._waiting, self._answered, self._streams))) >= self._most:
                oldest = next(iter(self._waiting or self._answered))
                self._forget(oldest)
                with contextlib.suppress(OSError):  # its thread wakes and closes it
                    oldest.shutdown(socket.SHUT_RDWR)
            self._waiting[connection] = True

    def _forget(self, connection):
        return any([each.pop(connection, False) for each in (self._waiting, self._answered, self._streams)])

    def begin_answer(self, connection):
        """Does nothing if the connection was dropped."""
        with self._lock:
            if self._forget(connection):
                self._answered[connection] = True

    def begin_stream(self, connection):
        """False if there are too many streams, or the connection was dropped."""
        with self._lock:
            if len(self._streams) >= self._most_streams or not self._forget(connection):
                return False
            self._streams[connection] = True
            return True

    def leave(self, connection):
        with self._lock:
            self._forget(connection)

    def has_streams(self):
        with self._lock:
            return bool(self._streams)
