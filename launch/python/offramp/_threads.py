"""Threads of the package, in addition to the library's."""

from __future__ import annotations

import signal
import sys
import threading
from types import CodeType, FrameType

# The kernel sends a thread's own faults to that thread, and faulthandler must report them.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}


def start_without_signals(thread: threading.Thread) -> None:
    """
    Blocks signals in the new thread, because they belong to the program. If the program blocks a signal and waits for
    it with sigwait() or a signalfd, an unblocked thread would receive it and end the process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Ctrl-C may interrupt any of these calls
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_within(code: CodeType, owner: object) -> bool:
    """
    Whether this thread runs a method's code for its `owner`. Walks the stack: a flag is not enough, because Ctrl-C may
    leave it set before Python 3.11.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code is not code or frame.f_locals.get("self") is not owner):
        frame = frame.f_back
    return frame is not None
