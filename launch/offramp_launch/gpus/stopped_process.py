"""Detects a worker's process that is held: stopped, or blocked on a disk that does not answer. Such a process handles no signal but SIGKILL."""

import pathlib
import time

PATIENCE_SECONDS = 10
HELD = {"T": "it is stopped", "t": "a debugger has stopped it", "D": "it waits for a disk or a device"}


class StoppedProcess:
    """Compares one process's state from look to look. Thread: one. `clock` and `stat` are seams for tests."""

    def __init__(self, pid, clock=time.monotonic, stat=None):
        self._pid, self._clock, self._stat = pid, clock, stat or stat_of
        self._last = self._since = None

    def look(self):
        """(seconds held, why) once the process is held for longer than a busy disk explains; else None."""
        stat, now = self._stat(self._pid), self._clock()
        if stat is None or stat[0] not in HELD or stat != self._last:
            self._last, self._since = stat, now
            return None
        seconds = now - self._since
        return (seconds, HELD[stat[0]]) if seconds >= PATIENCE_SECONDS else None


def stat_of(pid):
    """(state, CPU time used) from /proc; None if the process does not exist."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None
