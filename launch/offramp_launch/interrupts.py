"""
Ctrl-C ends a command with 130 and without a traceback, from the first line of its Python to the last. Whoever starts that Python blocks
the signal (launch/offramp, blocked(), run_python()), for Python itself would tell where its own start was interrupted.
A run minds SIGTERM and SIGHUP like Ctrl-C once it makes its directory (handle_all_signals()).
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

INTERRUPTED = 130
CTRL_C = {signal.SIGINT}
LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP)     # to a command that wants it
AGAIN_SECONDS = 0.001       # behind a place where Python drops what is raised
LOOK_SECONDS = 0.1      # from one look for signals to the next, while a program is waited for


def begin():
    """Call it before all else is imported: from here on Ctrl-C ends the process at once. Where it is ignored, as behind nohup, it stays so."""
    if is_handled():
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


def carry_out(main, argv):
    """The exit code of `main`, in which Ctrl-C is a KeyboardInterrupt; one, for what it has to put in order is not interrupted again."""
    try:
        try:
            if is_handled():
                signal.signal(signal.SIGINT, _raise_once)
                sys.unraisablehook = _raise_again
            return main(argv)
        finally:
            _ignore_signals()     # what it came to is its end
    except KeyboardInterrupt:
        return INTERRUPTED


def is_handled():
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def handle_all_signals():
    """From here on SIGTERM and SIGHUP are what Ctrl-C is, unless they are ignored."""
    for number in LIKE_CTRL_C:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_once)


def _raise_once(_, frame):
    if _is_within_a_finalizer(frame):
        return _raise_later()
    _ignore_signals()
    raise KeyboardInterrupt


def _raise_again(dropped):
    """Of what is raised within a finalizer or a weak reference's callback Python tells here, and drops it."""
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        return sys.__unraisablehook__(dropped)
    signal.signal(signal.SIGINT, _raise_once)
    _raise_later()


def _raise_later():
    again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()


def _is_within_a_finalizer(frame):
    """As far as Python's code shows it."""
    while frame is not None and frame.f_code is not _raise_again.__code__ and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _ignore_signals():
    for number in _minded():
        signal.signal(number, signal.SIG_IGN)


def _minded():
    return [number for number in (*CTRL_C, *LIKE_CTRL_C) if signal.getsignal(number) is _raise_once]


def wait_through(command, waits, ends, **options):
    """
    As subprocess.run, for a program that is not to be left behind, in a session of its own: the first signal that is minded is answered by `waits()`,
    another one by `ends()` and its death, which may come anywhere. Once the program is gone, either is a KeyboardInterrupt.
    """
    asked, answered, told = [], 0, None
    before = {number: signal.signal(number, lambda number, _: asked.append(number)) for number in _minded()}
    try:
        program = subprocess.Popen(command, start_new_session=True, **options)
        while told is None:
            try:
                told = program.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                for number in asked[answered:]:
                    again = answered > 0 and number != signal.SIGHUP
                    answered += 1
                    with contextlib.suppress(OSError):      # a terminal that is gone
                        ends() if again else waits()
                    if again:
                        program.kill()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        _ignore_signals()
        raise KeyboardInterrupt
    return subprocess.CompletedProcess(command, program.returncode, *told)


@contextlib.contextmanager
def blocked():
    """What starts within begins with Ctrl-C blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, CTRL_C)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


@contextlib.contextmanager
def deferred():
    """A signal that is minded and comes within is minded behind it."""
    asked = []
    before = {number: signal.signal(number, lambda number, _: asked.append(number)) for number in _minded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if asked:
            signal.raise_signal(asked[0])


def run_python(command, **options):
    """The status of a Python program of ours, which this process is there for only: Ctrl-C is handed on, and its end is waited for."""
    before = signal.getsignal(signal.SIGINT)
    with blocked():
        program = subprocess.Popen(command, **options)
        if is_handled():
            signal.signal(signal.SIGINT, lambda *_: program.send_signal(signal.SIGINT))
    try:
        return program.wait()
    finally:
        signal.signal(signal.SIGINT, before)
