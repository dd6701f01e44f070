"""
Ctrl-C ends a command with 130 and without a traceback, from the first line of its Python to the last. Whoever starts that Python blocks
the signal (launch/offramp, blocked(), run_python()), for Python itself would tell where its own start was interrupted.
"""

import contextlib
import os
import signal
import subprocess

INTERRUPTED = 130
CTRL_C = {signal.SIGINT}


def begin():
    """Call it before all else is imported: from here on Ctrl-C ends the process at once. Where it is ignored, as behind nohup, it stays so."""
    if minds():
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


def carry_out(main, argv):
    """The exit code of `main`, in which Ctrl-C is a KeyboardInterrupt; one, for what it has to put in order is not interrupted again."""
    try:
        try:
            if minds():
                signal.signal(signal.SIGINT, _raise_once)
            return main(argv)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)     # what it came to is its end
    except KeyboardInterrupt:
        return INTERRUPTED


def minds():
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def _raise_once(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextlib.contextmanager
def blocked():
    """What starts within begins with Ctrl-C blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, CTRL_C)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


def run_python(command, **options):
    """The status of a Python program of ours, which this process is there for only: Ctrl-C is handed on, and its end is waited for."""
    before = signal.getsignal(signal.SIGINT)
    with blocked():
        program = subprocess.Popen(command, **options)
        if minds():
            signal.signal(signal.SIGINT, lambda *_: program.send_signal(signal.SIGINT))
    try:
        return program.wait()
    finally:
        signal.signal(signal.SIGINT, before)
