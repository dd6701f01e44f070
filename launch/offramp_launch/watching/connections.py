"""Who is connected to the server: so many and no more, and a newcomer takes the place of who only waits."""

import contextlib
import socket
import threading
import time

MOST = 64
MOST_STREAMS = 32
SLOW_SECONDS = 1        # for whoever takes longer than this to read an answer


class Connections:
    """Borrows: the sockets, each until leave(). Thread: any. Blocks: never."""

    def __init__(self, most=MOST, most_streams=MOST_STREAMS, clock=time.monotonic):
        self._most, self._most_streams, self._clock = most, most_streams, clock
        self._lock = threading.Lock()
        self._idle = {}         # since when each has waited: for a request, or for the rest of one
        self._busy = {}         # since when each has been answered
        self._streams = set()

    def admit(self, connection):
        """False where there is no place for it."""
        with self._lock:
            if len(self._idle) + len(self._busy) + len(self._streams) >= self._most and not self._make_room():
                return False
            self._idle[connection] = self._clock()
            return True

    def _make_room(self):
        victim = next(iter(self._idle), None)
        if victim is None:
            victim = next((one for one, since in self._busy.items() if self._clock() - since > SLOW_SECONDS), None)
        if victim is None:
            return False
        self._forget(victim)
        with contextlib.suppress(OSError):      # its thread wakes, and closes it
            victim.shutdown(socket.SHUT_RDWR)
        return True

    def _forget(self, connection):
        self._idle.pop(connection, None)
        self._busy.pop(connection, None)
        self._streams.discard(connection)

    def begin_answer(self, connection):
        with self._lock:
            if self._idle.pop(connection, None) is not None:
                self._busy[connection] = self._clock()

    def begin_stream(self, connection):
        """False where there are too many."""
        with self._lock:
            if self._busy.pop(connection, None) is None or len(self._streams) >= self._most_streams:
                return False
            self._streams.add(connection)
            return True

    def end_answer(self, connection):
        with self._lock:
            if self._busy.pop(connection, None) is not None:
                self._idle[connection] = self._clock()

    def leave(self, connection):
        with self._lock:
            self._forget(connection)

    def has_streams(self):
        with self._lock:
            return bool(self._streams)
