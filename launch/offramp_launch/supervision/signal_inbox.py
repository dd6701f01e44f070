"""Signals to the launcher as selector events."""

import selectors
import signal
import socket


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
