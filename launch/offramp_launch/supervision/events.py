"""Timers, and signals to the launcher as events of a selector, for a loop that sleeps until the next one."""

import heapq
import itertools
import selectors
import signal
import socket
import time


class SignalInbox:
    """Turns Ctrl-C, SIGTERM and SIGHUP into events of the selector while it is entered."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, selector, deliver):
        self._selector = selector
        self._deliver = deliver

    def __enter__(self):
        self._inbox, self._wakeup = socket.socketpair()
        self._inbox.setblocking(False)
        self._wakeup.setblocking(False)
        self._before_fd = signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        # An idle function: an ignored or default signal would not write to the wakeup descriptor.
        self._before = {number: signal.signal(number, lambda *_: None) for number in self.SIGNALS}
        self._selector.register(self._inbox, selectors.EVENT_READ, self._receive)
        return self

    def __exit__(self, *_):
        self._selector.unregister(self._inbox)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        self._inbox.close()
        self._wakeup.close()

    def _receive(self):
        for number in self._inbox.recv(64):
            if number in self.SIGNALS:
                self._deliver(number)


class Timers:
    """Thread: the loop's. The clock is a seam for tests."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._order = itertools.count()
        self._due = []

    def now(self):
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
