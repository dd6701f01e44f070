"""
Ctrl-C ends a command with 130 and without a traceback, from the first line of its Python to the last. The parent of
that Python blocks the signal (launch/offramp, blocked(), run_python()), since Python would print a traceback of its
start-up. A run handles SIGTERM and SIGHUP like Ctrl-C once it makes its directory, `consume` from its start
(handle_all_signals()).
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

INTERRUPTED = 130
CTRL_C = {signal.SIGINT}
LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP)  # for commands that request it
AGAIN_SECONDS = 0.001  # until the signal is raised again after Python dropped the exception
LOOK_SECONDS = 0.1  # between two checks for signals while waiting for a program


def begin():
    """Call before other imports: from here on Ctrl-C ends the process immediately, unless it is ignored (nohup)."""
    if is_handled():
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


def carry_out(main, argv):
    """The exit code of `main`, in which Ctrl-C raises KeyboardInterrupt once; its clean-up is not interrupted again."""
    try:
        try:
            if is_handled():
                signal.signal(signal.SIGINT, _raise_once)
                sys.unraisablehook = _raise_again
            return main(argv)
        finally:
            _ignore_signals()  # its result is final
    except KeyboardInterrupt:
        return INTERRUPTED


def is_handled():
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def handle_all_signals():
    """From here on SIGTERM and SIGHUP act like Ctrl-C, unless they are ignored."""
    for number in LIKE_CTRL_C:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_once)


def _raise_once(_, frame):
    if _is_within_a_finalizer(frame):
        return _raise_later()
    _ignore_signals()
    raise KeyboardInterrupt


def _raise_again(dropped):
    """Hook for exceptions that Python drops in finalizers and weak reference callbacks, for KeyboardInterrupt."""
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        return sys.__unraisablehook__(dropped)
    signal.signal(signal.SIGINT, _raise_once)
    _raise_later()


def _raise_later():
    again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()


def _is_within_a_finalizer(frame):
    """Whether a Python frame above is a finalizer."""
    while frame is not None and frame.f_code is not _raise_again.__code__ and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _ignore_signals():
    for number in _handled_signals():
        signal.signal(number, signal.SIG_IGN)


def _handled_signals():
    return [number for number in (*CTRL_C, *LIKE_CTRL_C) if signal.getsignal(number) is _raise_once]


@contextlib.contextmanager
def _collected():
    """The list of handled signals that arrive within."""
    asked: list[int] = []
    before = {number: signal.signal(number, lambda number, _: asked.append(number)) for number in _handled_signals()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_through(command, waits, ends, **options):
    """
    As subprocess.run, for a program in a separate session that must not be left behind. On the first handled signal it
    calls `waits()`; on another one it calls `ends()` and kills the program. After the program's end, either raises
    KeyboardInterrupt.
    """
    answered, output = 0, None
    with _collected() as asked:
        program = subprocess.Popen(command, start_new_session=True, **options)
        while output is None:
            try:
                output = program.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                for number in asked[answered:]:
                    again = answered > 0 and number != signal.SIGHUP
                    answered += 1
                    with contextlib.suppress(OSError):  # a terminal that is gone
                        ends() if again else waits()
                    if again:
                        program.kill()
    if asked:
        _ignore_signals()
        raise KeyboardInterrupt
    return subprocess.CompletedProcess(command, program.returncode, *output)


@contextlib.contextmanager
def blocked():
    """Processes started within begin with Ctrl-C blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, CTRL_C)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CTRL_C)


@contextlib.contextmanager
def deferred():
    """Defers handled signals that arrive within to its end."""
    asked: list[int] = []
    try:
        with _collected() as asked:
            yield
    finally:
        if asked:
            signal.raise_signal(asked[0])


def run_python(command, **options):
    """Runs a Python program of this project in place of this command: forwards Ctrl-C, returns the program's status."""
    before = signal.getsignal(signal.SIGINT)
    with blocked():
        program = subprocess.Popen(command, **options)
        if is_handled():
            signal.signal(signal.SIGINT, lambda *_: program.send_signal(signal.SIGINT))
    try:
        return program.wait()
    finally:
        signal.signal(signal.SIGINT, before)
