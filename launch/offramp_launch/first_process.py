"""
In a container the command is the first process. To it the kernel gives every process whose parent is gone, and of signals only those that it has asked for.
There the command goes on as a child, and the first process hands signals on, takes the dead away, and ends as the command did.
"""

import contextlib
import os
import signal

FIRST = 1
HANDED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
KILLED = 128


def run_as_first_process():
    """Returns in the process that is to be the command. Call it before anything is started, and before other threads are."""
    if os.getpid() != FIRST:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON | {signal.SIGCHLD, signal.SIGTTOU})
    command = os.fork()
    if command:
        os._exit(supervise(command))
    # Of a terminal's Ctrl-C one comes, and not the one that is handed on, too.
    os.setpgid(0, 0)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, os.getpid())
    signal.pthread_sigmask(signal.SIG_SETMASK, before.difference({signal.SIGTERM}))     # which launch/offramp blocks for this one


def supervise(command):
    """The exit code of this child, when it has ended."""
    while True:
        number = signal.sigwait(HANDED_ON | {signal.SIGCHLD})
        if number != signal.SIGCHLD:
            os.kill(command, number)
        elif (ended := take_the_dead_away()).get(command) is not None:
            code = ended[command]
            return code if code >= 0 else KILLED - code


def take_the_dead_away():
    """How those ended, by process."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended
