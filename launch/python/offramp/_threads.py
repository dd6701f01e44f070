"""Threads of the package's own, beside those of the library."""

from __future__ import annotations

import signal
import threading

# An error of the thread itself comes to nobody else, and faulthandler is to tell of it.
_ITS_OWN = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}


def start_without_signals(thread: threading.Thread) -> None:
    """
    Signals are the program's. Those that it handles Python brings to the main thread, wherever they land; but one that the program blocks, to wait for it
    with sigwait() or a signalfd, would come to a thread that does not block it, and end the process. The new thread has the mask from its start on.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())       # each of these calls may be where Ctrl-C comes in
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _ITS_OWN)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
