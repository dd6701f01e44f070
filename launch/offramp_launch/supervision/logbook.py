"""What a launcher records about a run besides its status: deaths, restarts and the latest messages."""

import collections
import contextlib
import json
import time

from offramp_launch.places import as_typed
from offramp_launch.run_dir import LOGBOOK
from offramp_launch.summary import wall_clock
from offramp_launch.watching.counters import BusySeconds

KEPT_DEATHS, KEPT_LINES = 20, 40
LONGEST_LINE = 400  # characters


class Logbook:
    """
    A display that records its messages. Writes launcher.json, from which the launcher of the whole run learns of a
    worker's run. Borrows: the display, the run directory. Thread: the supervisor's. Blocks: on the disk.
    """

    def __init__(self, run_dir, display):
        self._run_dir, self._display = run_dir, display
        self._busy = BusySeconds()
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._deaths: collections.deque[dict] = collections.deque(maxlen=KEPT_DEATHS)
        self._counts = {"restarts": 0, "takeovers": 0}
        self._failures: dict[str, str] = {}

    def note(self, text):
        now = wall_clock()
        self._lines += [f"{now} {line[:LONGEST_LINE]}" for line in as_typed(text, anywhere=True).splitlines()]
        self._display.note(text)

    def show(self, status):
        self._busy.look(status.get("consumers"))
        self._display.show(status)

    def note_death(self, who, how):
        self._deaths.append({"time": wall_clock(), "at_ns": time.monotonic_ns(), "who": who, "how": how})
        self._keep()

    def count(self, what):
        """`what`: restarts (of consumers) or takeovers."""
        self._counts[what] += 1
        self._keep()

    def note_failures(self, groups):
        """`groups`: of ConsumerGroups.describe(), now."""
        failures = {each["name"]: each["failure"] for each in groups if each["failure"]}
        if failures != self._failures:
            self._failures = failures
            self._keep()

    def restarts(self):
        """Number of consumers that succeeded another one in its slot."""
        return self._counts["restarts"]

    def record(self):
        return {
            **self._counts,
            "deaths": list(self._deaths),
            "consumer_busy_seconds": round(self._busy.seconds, 3),
            "log": list(self._lines),
        }

    def _keep(self):
        with contextlib.suppress(OSError):  # a full disk; record() still has the data
            kept = {**self._counts, "deaths": list(self._deaths), "failures": self._failures}
            self._run_dir.write(LOGBOOK, json.dumps(kept, indent=2) + "\n")
