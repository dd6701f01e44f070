"""Has the number of a run's consumers follow its work, for as long as it is to."""

import math
import os
import pathlib
import time

from offramp_launch.arguments import setting_given
from offramp_launch.supervision.following import Bounds, Following

MOST_CONSUMERS = 64     # a run's table of consumers holds so many
LEAST_OF_A_MACHINE = 4  # of the most on it: consumers that wait for a disk or a server need no core
CONSUMER_BYTES = 256 << 20      # of memory, beside the slabs, which all of them share


def most_of_this_machine(cores=None, memory_bytes=None):
    """Consumers that `auto` may come to: two for each core, as far as there is memory for them."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    memory_bytes = available_memory() if memory_bytes is None else memory_bytes
    return max(1, min(MOST_CONSUMERS, max(LEAST_OF_A_MACHINE, 2 * cores), int(min(memory_bytes / CONSUMER_BYTES, MOST_CONSUMERS))))


def available_memory():
    """Bytes; endless where the kernel does not say."""
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), math.inf)


def bounds_of(text):
    """Of `auto` or MIN..MAX; None of a number. Errors: LaunchError (USAGE)."""
    return Bounds.of(text, most_of_this_machine(), MOST_CONSUMERS)


def bounds_given(argv):
    """As --consumers has them, by flag, variable or file; None where a number stands there, or nothing. Errors: LaunchError (USAGE)."""
    return bounds_of(setting_given("consumers", argv))


class Follower:
    """
    Owns the account of what it did. Borrows: the seats. `note`: tells a line.
    Thread: the supervisor's. Blocks: never. The clock is a seam for tests.
    """

    def __init__(self, seats, note, clock=time.monotonic):
        self._seats, self._note, self._clock = seats, note, clock
        self._following = None
        self._bounds = None     # the latest
        self._changes = 0
        self._seconds = self._consumer_seconds = 0.0
        self._looked_at = None

    bounds = property(lambda self: self._following.bounds if self._following else None, doc="None where the number stays as it is.")

    def take_up(self, bounds):
        """Anew, also where it does already."""
        self._following, self._bounds, self._looked_at = Following(bounds), bounds, None

    def leave_off(self):
        self._following = None

    def look(self, status):
        """Where consumers are wanted."""
        if not self._following:
            return
        wanted, now = len(self._seats.staying()), self._clock()
        if self._looked_at is not None:
            self._seconds += now - self._looked_at
            self._consumer_seconds += wanted * (now - self._looked_at)
        self._looked_at = now
        if change := self._following.look(status, wanted):
            self._changes += 1
            self._seats.bring_to(change.wanted)
            self._note(f"consumers: {wanted} -> {change.wanted}: {change.reason}")

    def account(self):
        """For status and summary; None where it never did."""
        if not self._bounds:
            return None
        return {"bounds": str(self._bounds), "follows": self._following is not None, "changes": self._changes,
                "mean_consumers": round(self._consumer_seconds / self._seconds, 2) if self._seconds else None}
