"""The server's connections: a bounded number. A new one replaces a connection that is idle or does not read."""

import contextlib
import socket
import threading

MOST = 64
MOST_STREAMS = 32


class Connections:
    """
    Borrows: the sockets, each until leave(). Thread: any. Blocks: never. The kernel buffers a whole answer, so a client that is still being sent one
    when the limit is reached does not read.
    """

    def __init__(self, most=MOST, most_streams=MOST_STREAMS):
        """`most_streams` must be less than `most`."""
        self._most, self._most_streams = most, most_streams
        self._lock = threading.Lock()
        # Each in order of arrival.
        self._idle, self._asking, self._taking = {}, {}, {}     # waits for a request; its answer is being made; its answer is being sent
        self._streams = {}

    def admit(self, connection):
        with self._lock:
            if sum(map(len, self._all())) >= self._most:
                self._make_room()
            self._idle[connection] = True

    def _all(self):
        return self._idle, self._taking, self._asking, self._streams

    def _make_room(self):
        """Drops the oldest connection: a client that asks and reads is gone by then."""
        victim = next(iter(self._idle or self._taking or self._asking))
        self._forget(victim)
        with contextlib.suppress(OSError):      # its thread wakes and closes it
            victim.shutdown(socket.SHUT_RDWR)

    def _forget(self, connection):
        for each in self._all():
            each.pop(connection, None)

    def begin_answer(self, connection):
        self._move(connection, self._idle, self._asking)

    def begin_sending(self, connection):
        self._move(connection, self._asking, self._taking)

    def end_answer(self, connection):
        self._move(connection, self._taking, self._idle)

    def _move(self, connection, before, after):
        """Does nothing if the connection was dropped."""
        with self._lock:
            if before.pop(connection, False):
                after[connection] = True

    def begin_stream(self, connection):
        """False if there are too many streams."""
        with self._lock:
            if len(self._streams) >= self._most_streams or not self._asking.pop(connection, False):
                return False
            self._streams[connection] = True
            return True

    def leave(self, connection):
        with self._lock:
            self._forget(connection)

    def has_streams(self):
        with self._lock:
            return bool(self._streams)
