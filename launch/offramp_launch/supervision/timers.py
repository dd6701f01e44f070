"""Delayed actions, for a loop that sleeps until the next one."""

import heapq
import itertools
import time


class Timers:
    """Thread: the loop's. The clock is a seam for tests."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._order = itertools.count()
        self._due = []

    def now(self):
        """Seconds of the clock that the timers use."""
        return self._clock()

    def after(self, seconds, action):
        heapq.heappush(self._due, (self._clock() + seconds, next(self._order), action))

    def next_in(self):
        """Seconds until the next action; None when there is none."""
        return max(0.0, self._due[0][0] - self._clock()) if self._due else None

    def run_due(self):
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
