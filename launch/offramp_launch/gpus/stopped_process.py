"""Whether a worker's process is held: stopped, or waiting for a disk that gives no answer. It hears no signal then, but SIGKILL."""

import pathlib
import time

PATIENCE_SECONDS = 10
HELD = {"T": "it is stopped", "t": "a debugger has stopped it", "D": "it waits for a disk or a device"}


class StoppedProcess:
    """Of one process, from look to look. Thread: one. `clock` and `told` are seams for tests."""

    def __init__(self, pid, clock=time.monotonic, told=None):
        self._pid, self._clock, self._told = pid, clock, told or told_of
        self._last = self._since = None

    def look(self):
        """(seconds that it has been held, why), once that is for longer than a busy disk holds it; else None."""
        told, now = self._told(self._pid), self._clock()
        if told is None or told[0] not in HELD or told != self._last:
            self._last, self._since = told, now
            return None
        seconds = now - self._since
        return (seconds, HELD[told[0]]) if seconds >= PATIENCE_SECONDS else None


def told_of(pid):
    """(state, processor time used) as /proc has them; None where there is no such process."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None
